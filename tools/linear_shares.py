"""Print how wrong published linears are predicted by a share of their parts.

Run: python -m tools.linear_shares. roofcal/ops/linear/model.py has the share that was chosen, and
the spread of torchao's linears between a norm and a sigmoid, which widens the intervals of these.
"""

from typing import Final
from unittest.mock import patch

import numpy as np
import pandas as pd

from roofcal.ask.devices import datasheet
from roofcal.core import paths
from roofcal.core.jsonl import read_plan
from roofcal.core.paths import run_folders
from roofcal.models import calibrated
from roofcal.models.registry import predict_points
from roofcal.ops import point_problem
from roofcal.ops.linear import model as linear
from roofcal.ops.time_models import Sources
from roofcal.points.run import load_run

SHARES: Final = (0.97, linear.PARTS_SHARE, 0.99, 1.0)  # the chosen one, its neighbours, parts alone


def published_errors(op: str) -> pd.DataFrame:
    """A row per published time of an op, of studies and judged seeds, that is predicted.

    tokens: m. error: predicted over measured time, minus 1.
    """
    rows = []
    published = [
        (run, records)
        for run in run_folders(paths.PUBLISHED)
        for records in (run, *run.judged().values())
        if op in records.planned_ops()
    ]
    for run, records in published:
        sources = Sources(calibration=load_run(run.folder).calibration, spec=datasheet(run.device))
        plan = {point.point_id: point for point in read_plan(records, op, point_problem)}
        table = load_run(records.folder).points(op).table.drop_duplicates("point_id")
        timed = table[table["method"].isin(["graph", "alone"])].dropna(subset=["median_s"])
        points = [plan[name] for name in timed["point_id"]]
        told = {one.point_id: one for one in predict_points(calibrated, points, sources)}
        for point, measured_s in zip(points, timed["median_s"], strict=True):
            one = told.get(point.point_id)
            if one and one.total_s and one.low_s is not None and one.high_s is not None:
                rows.append(
                    {
                        "provider": point.provider,
                        "recipe": point.recipe,
                        "tokens": point.shape["m"],
                        "error": one.total_s / measured_s - 1,
                        "is_inside": one.low_s <= measured_s <= one.high_s,
                    }
                )
    return pd.DataFrame(rows)


def main() -> None:
    """Print a line per share, then what torchao's linears take over the sum of parts."""
    for share in SHARES:
        with patch.object(linear, "PARTS_SHARE", share):
            linears = published_errors("linear")
        bias = np.exp(np.log1p(linears["error"]).mean()) - 1
        print(
            f"{share:g} of the parts: {len(linears)} linears, "
            f"{linears['error'].abs().mean():.1%} off, bias {bias:+.1%}, "
            f"{linears['is_inside'].mean():.0%} inside"
        )
    between = published_errors("norm_linear_sigmoid").query("provider == 'torchao'")
    over_sum = 1 / (1 + between["error"]) - 1
    print(
        f"torchao between a norm and a sigmoid: {len(over_sum)} linears take {over_sum.min():+.0%} "
        f"to {over_sum.max():+.0%} over the sum of their parts, root mean square "
        f"{np.sqrt((np.log1p(over_sum) ** 2).mean()):.0%}"
    )
    large = between["tokens"] >= 4096
    for recipe, own in over_sum[large].groupby(between["recipe"]):
        print(f"  {recipe}, 4096 cubed and more: {own.min():+.0%} to {own.max():+.0%}")


if __name__ == "__main__":
    main()
