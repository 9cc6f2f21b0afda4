"""Write the measured numbers of README.md and docs/, from the tables of publications.

A number in a page stands between `<!-- name -->` and `<!-- / -->`; `measured_numbers` has it.
Run: python -m tools.method_numbers; a test fails when a page and the tables disagree.
"""

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from roofcal.compare.comparison import compare
from roofcal.core.environments import version_key
from roofcal.core.jsonl import read_records, read_single_record, write_records
from roofcal.core.paths import RunFolder, run_folders
from roofcal.core.records import Environment, Measurement, PlanPoint, Session
from roofcal.core.visits.differences import time_ratio
from roofcal.core.visits.intervals import point_intervals, visit_times
from roofcal.core.visits.rows import merged_visits, split_visits
from roofcal.ops import BY_NAME, OPS
from roofcal.points.run import load_run
from roofcal.report.data.comparisons import fastest_products, ops_of_products
from roofcal.report.data.tidy import axes_of, ok_rows, with_shape
from roofcal.study.config import load_study
from roofcal.study.plan import plan_op
from roofcal.study.runs import planned_run
from roofcal.study.startup import measuring_minutes

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "method.md", ROOT / "docs" / "models.md")
PUBLISHED = ROOT / "reports" / "published"
TWICE = "nvidia-h200/*/cards/GPU-6237b75b"  # a published card that a later session visited again
ENERGY = ROOT / "docs" / "energy"  # products whose energy counter was read beside their power
# Model of the table of a judge -> its name in the contest.
CONTENDERS = {
    "datasheet": "datasheet",
    "torchao": "torchao",
    "torchao_fitted": "torchao, fitted",
    "wave": "wave",
    "ten_constants": "ten constants",
    "calibrated": "roofcal",
}
# Mark of a mean error in a page -> column of the model's predictions.
ERRORS = {"datasheet": "datasheet_s", "torchao": "torchao_s", "calibrated": "predicted_s"}
_NUMBER = re.compile(r"(<!-- (\w+) -->).*?(<!-- / -->)", re.DOTALL)


def tables_of_devices() -> list[Path]:
    """The tables of each device's newest publication (driver, torch, Triton), the H200's first."""
    runs = sorted(run_folders(PUBLISHED), key=lambda run: version_key(run.environment_id))
    newest = {run.device: run.folder / "tables" for run in runs}
    return [newest[name] for name in sorted(newest, key=lambda name: (name != "nvidia-h200", name))]


def tables_of_publication() -> Path:
    """Those of the H200."""
    return tables_of_devices()[0]


def gpu_name(device: str) -> str:
    """A device as people say it: nvidia-h100-sxm -> H100."""
    return device.removeprefix("nvidia-").partition("-")[0].upper()


def tables_of_gpus() -> dict[str, Path]:
    """Name of each GPU of NVIDIA, in alphabetical order -> the tables of its newest publication."""
    devices = {tables.parent.parent.name: tables for tables in tables_of_devices()}
    return {gpu_name(d): devices[d] for d in sorted(devices) if d.startswith("nvidia-")}


def measured_numbers(tables: Path) -> dict[str, str]:
    """Name -> text of every number that the page may show.

    Ratios are those of the method panel: the time by a method over that by graph replay of cold
    buffers with normal data.

    Args:
        tables: folder with the CSV tables of a publication.
    """
    panel = pd.read_csv(tables / "method_panel.csv")
    constants = pd.read_csv(tables / "constants.csv").set_index("name")["value"]
    gemm = pd.read_csv(tables / "nvidia-h200_gemm.csv")
    slowdown = settling_slowdown(gemm)
    gpus = tables_of_gpus()
    products = {gpu: library_products(of_gpu) for gpu, of_gpu in gpus.items()}
    ratio_of_method = panel.groupby("method")["ratio"]
    return {
        "hot": _range_text(panel.loc[panel["cache"] == "hot", "ratio"]),
        "zeros": _range_text(panel.loc[panel["distribution"] == "zeros", "ratio"]),
        "wall": f"{ratio_of_method.max()['wall']:.1f}",
        "flush": f"{ratio_of_method.max()['events_flush']:.2f}",
        "eager": f"{constants['launch_eager_s'] * 1e6:.1f} us",
        "settling_median": f"{100 * slowdown.median():.1f} %",
        "settling_95": f"{100 * slowdown.quantile(0.95):.1f} %",
        "products": " and ".join(f"{len(rows)} on an {gpu}" for gpu, rows in products.items()),
        **{
            f"error_{name}": " and ".join(mean_error(rows, model) for rows in products.values())
            for name, model in ERRORS.items()
        },
        "judged": judged_text([*gpus.values()]),
        "contest": contest_table(tables_of_devices()),
        "coverage": coverage_table(tables_of_devices()),
        "peaks": "".join(peaks_table(gpu, of_gpu) for gpu, of_gpu in gpus.items()),
        **sentinel_numbers(gemm),
        **factor_numbers(tables),
        **repeat_numbers(next(PUBLISHED.glob(TWICE)), "gemm"),
        **energy_numbers(ENERGY),
        **durations(tables.parent / "environment.jsonl"),
        "twice": twice_table(tables_of_devices()),
    }


def durations(environment_file: Path) -> dict[str, str]:
    """For about how long a quick study measures, as `make study` says beforehand.

    environment_file: of a GPU; the other one is a CPU of two cores.
    """
    study = load_study(ROOT / "config", {"study": "quick"})
    gpu = read_single_record(environment_file, Environment)
    cpu = Environment(
        device="cpu", vendor="cpu", device_name="CPU", compute_units=2, torch="2", python="3.11"
    )
    texts = {}
    for name, environment in (("quick_gpu", gpu), ("quick_cpu", cpu)):
        run = planned_run(study, ROOT, environment, 1)
        plans = [plan_op(op_slice, environment) for op_slice in run.slices.values()]
        texts[name] = f"{measuring_minutes(run, environment.backend, plans)} minutes"
    return texts


def library_products(tables: Path) -> pd.DataFrame:
    """Study points of the library's products that datasheet, torchao and roofcal all predict."""
    gemm = pd.read_csv(tables / f"{tables.parent.parent.name}_gemm.csv", low_memory=False)
    plain = {"method": "graph", "cache": "cold", "distribution": "normal", "repeat": 0}
    for column, value in ({"provider": "cublaslt", "status": "ok"} | plain).items():
        gemm = gemm[gemm[column] == value]
    return gemm.dropna(subset=["datasheet_s", "torchao_s", "predicted_s"])


def mean_error(products: pd.DataFrame, model: str) -> str:
    """Mean of |predicted / measured - 1| of a column of predicted seconds, as text."""
    return f"{100 * (products[model] / products['median_s'] - 1).abs().mean():.1f} %"


def judged_rows(tables: Sequence[Path]) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """GPU, op, and errors of each model on all points of the op, by its column `model`.

    Of several seeds the one that was measured last counts, which is the last of the table.

    Args:
        tables: folders with the CSV tables of publications; those without a judge are left out.
    """
    for file in (folder / "judged_errors.csv" for folder in tables):
        if not file.is_file():
            continue
        rows = pd.read_csv(file)
        is_whole = (rows[["recipe", "provider", "regime"]] == "all").all(axis=1)
        for op, own in rows[is_whole & (rows["count"] > 0)].groupby("op", sort=False):
            last = own[own["seed"] == own["seed"].iloc[-1]]
            yield gpu_name(str(last["device"].iloc[0])), str(op), last.set_index("model")


def judged_text(tables: Sequence[Path]) -> str:
    """What the records of a judge say of products, device by device; "" where none has any."""
    texts = []
    for gpu, op, models in judged_rows(tables):
        if op == "gemm":
            own = models.loc["calibrated"]
            texts.append(
                f"{100 * own['mape']:.1f} % on an {gpu} ({own['count']} products, 95th percentile "
                f"{100 * own['p95_abs_error']:.0f} %)"
            )
    by = " and ".join(texts)
    return f" On layers that no study lists, measured apart, roofcal is off by {by}." if by else ""


def contest_table(tables: Sequence[Path]) -> str:
    """A Markdown table of models on the layers of a judge: mean error (95th percentile)."""
    rows = [
        {"GPU": gpu, "op": op, "points": str(models.loc["calibrated", "count"])}
        | {
            CONTENDERS[str(name)]: f"{100 * row['mape']:.1f} ({100 * row['p95_abs_error']:.0f}) %"
            for name, row in models.iterrows()
            if row["count"] == models.loc["calibrated", "count"]  # a contest is on equal points
        }
        for gpu, op, models in judged_rows(tables)
    ]
    names = ("GPU", "op", "points", *CONTENDERS.values())
    heads = [name for name in names if any(name in row for row in rows)]
    lines = markdown_table(heads, ([row.get(name, "") for name in heads] for row in rows))
    return "\n" + "\n".join(lines) + "\n" if rows else ""


def coverage_table(tables: Sequence[Path]) -> str:
    """A Markdown table of how many study points lie inside the 95 % intervals of predictions.

    A row for each GPU and op, and one for its regime of few tokens.
    """
    rows = []
    for folder in tables:
        errors = pd.read_csv(folder / "error_by_regime.csv")
        is_whole = (errors[["recipe", "provider"]] == "all").all(axis=1)
        is_own = is_whole & (errors["model"] == "calibrated") & errors["coverage"].notna()
        for _, row in errors[is_own & errors["regime"].isin(("all", "decode"))].iterrows():
            inside, count = round(row["coverage"] * row["count"]), int(row["count"])
            what = f"{row['op']}, few tokens" if row["regime"] == "decode" else row["op"]
            share = f"{row['coverage']:.0%} ({inside} of {count})"
            rows.append((gpu_name(str(row["device"])), what, share))
    lines = markdown_table(("GPU", "study points of op", "inside the 95 % interval"), rows)
    return "\n" + "\n".join(lines) + "\n"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(map(str, cells))} |" for cells in lines]


def peaks_table(gpu: str, tables: Path) -> str:
    """A Markdown table of a GPU: datasheet, first turn, settled rate and its share."""
    constants = pd.read_csv(tables / "constants.csv").set_index("name")
    device = tables.parent.parent.name
    frames = {
        name: pd.read_csv(tables / f"{device}_{name}.csv", low_memory=False)
        for name in ops_of_products("gemm")
    }
    products = fastest_products(frames)
    rows = []
    for recipe in ("bf16", "fp8_tensorwise", "fp8_axiswise"):
        product, rate = products[recipe], products[recipe].rate
        peak = float(constants["datasheet"][f"gemm.cublaslt.{recipe}.ceiling_flops_per_s"])
        numbers = (peak, product.burst or np.nan, rate.value, rate.ci95_low, rate.ci95_high)
        peak_cell, burst, settled, low, high = (f"{number / 1e12:.0f}" for number in numbers)
        share, shape = f"{rate.value / peak:.0%}", product.shape.replace(",", "")
        settled_cell = f"{settled} ({low} to {high})"
        rows.append((f"{recipe}, TFLOP/s", peak_cell, burst, settled_cell, share, shape))
    for kind in ("read", "copy"):
        stream = constants.loc[f"dram_{kind}_bytes_per_s"]
        peak_cell, settled = (f"{stream[name] / 1e12:.2f}" for name in ("datasheet", "value"))
        rows.append(
            (f"memory {kind}, TB/s", peak_cell, "", settled, f"{stream['fraction']:.0%}", "")
        )
    launch = f"{constants['value']['launch_graph_s'] * 1e6:.2f}"
    rows.append(("empty kernel in a graph, us", "", "", launch, "", ""))
    heads = (f"NVIDIA {gpu}", "datasheet", "first turn", "settled (95 %)", "share", "settled at")
    return "\n" + "\n".join(markdown_table(heads, rows)) + "\n"


def twice_table(folders: Sequence[Path]) -> str:
    """A Markdown table of the points that are measured in several ways, of all publications.

    As sentinels (alone and soon over, of the op and of its probe), in the study (in turns with
    their contenders) and by method `alone` (settled). Medians of visits or repetitions, in us.
    """
    rows = ["| GPU | point | sentinel | study | alone | apart |", "|---|---|---|---|---|---|"]
    for tables in folders:
        device = tables.parent.parent.name
        for folder in dict.fromkeys(op.folder for op in OPS):
            files = [tables / f"{device}_{op.name}.csv" for op in OPS if op.folder == folder]
            parts = [pd.read_csv(file, low_memory=False) for file in files if file.is_file()]
            if parts:
                rows += _twice_rows(device, pd.concat(parts, ignore_index=True))
    return "\n" + "\n".join(rows) + "\n"


def _twice_rows(device: str, points: pd.DataFrame) -> Iterator[str]:
    """The rows of an op and its probe; `apart` is the longest over the shortest time, minus 1."""
    gpu, axes = device.removeprefix("nvidia-").upper(), axes_of(points)
    points = ok_rows(points[points["distribution"] == "normal"])
    keys = ["provider", "recipe", *axes, "world_size"]
    # Few of the thousands of points are sentinels: the others are left out before they are grouped.
    sentinels = points.loc[points["repeat"] > 0, keys].drop_duplicates()
    for _, rows in points.merge(sentinels, on=keys).groupby(keys, sort=False):
        is_sentinel = rows["repeat"] > 0
        settled = ~is_sentinel & (rows["method"] == "graph")
        masks = (is_sentinel, settled, rows["method"] == "alone")
        kinds = [1e6 * rows.loc[mask, "median_s"] for mask in masks]
        if kinds[0].empty or (kinds[1].empty and kinds[2].empty):
            continue
        ends = [list(dict.fromkeys((kind.min(), kind.max()))) for kind in kinds if len(kind)]
        texts = iter(" to ".join(f"{end:.4g}" for end in of_kind) for of_kind in ends)
        cells = " | ".join("" if kind.empty else next(texts) for kind in kinds)
        first = with_shape(rows).iloc[0]
        name = f"{first['recipe']} by {first['provider']}, {first['shape'].replace(',', '')}"
        times = pd.concat(kinds)
        yield f"| {gpu} | {name} | {cells} | {times.max() / times.min() - 1:.1%} |"


def sentinel_numbers(gemm: pd.DataFrame) -> dict[str, str]:
    """How far the repetitions of the sentinel of products lie apart, and what each says of itself.

    gemm: its tidy table; of several sentinels, the one whose repetitions lie furthest apart.
    """
    rows = gemm[gemm["sweeps"].astype(str).str.split(";").map(lambda names: "sentinel" in names)]
    rows = rows[rows["status"] == "ok"]
    groups = rows.groupby(["provider", "recipe", "m", "n", "k"])
    spread = groups["median_s"].max() / groups["median_s"].min() - 1
    widest = groups.get_group(spread.idxmax())
    half = (widest["ci95_high_s"] - widest["ci95_low_s"]) / 2 / widest["median_s"]
    in_session = widest.groupby("session_id", sort=False).size()
    return {
        "sentinel_count": " + ".join(map(str, in_session)),
        "sentinel_range": f"{100 * spread.max():.1f} %",
        "sentinel_deviation": f"{100 * widest['median_s'].std() / widest['median_s'].mean():.1f} %",
        "sentinel_half": f"{100 * half.median():.2f} %",
    }


def factor_numbers(tables: Path) -> dict[str, str]:
    """How many sessions of a publication share sentinels with another, and so have a factor."""
    panel = pd.read_csv(tables / "panel.csv")
    sessions = pd.read_csv(tables / "quality.csv")["sessions"]
    return {
        "session_count": str(int(sessions.sum())),
        "factor_sessions": str(panel["session_id"].nunique()),
    }


def energy_numbers(folder: Path) -> dict[str, str]:
    """How far the energy counter of a board is from the power that was integrated beside it.

    Args:
        folder: a run folder with products of method `energy`.
    """
    points = load_run(folder).points("gemm").table
    ratios = (points["board_w"] / points["integrated_w"]).dropna()
    return {
        "energy_points": str(len(ratios)),
        "energy_most": f"{100 * (ratios - 1).abs().max():.1f} %",
    }


def repeat_numbers(publication: Path, op: str) -> dict[str, str]:
    """How the last session of an op agrees with those before it, on the points that both visited.

    What `compare` says of two runs: one has the visits of the last session, the other all others.
    Its intervals hold what differs between runs. Those that tables print hold the visits of a
    session, so how often the ratio of two of them holds 1 is counted beside that.

    Args:
        publication: a run folder.
        op: one whose points were visited by several sessions.
    """
    run = RunFolder.at(publication)
    records = list(read_records(run.measurements_file(op)))
    sessions = [record for record in records if isinstance(record, Session)]
    rows = [record for record in records if isinstance(record, Measurement)]
    with tempfile.TemporaryDirectory() as folder:
        parts, halves = [], split_at_last(sessions, rows)
        for part, part_rows in zip(("before", "last"), halves, strict=True):
            place = Path(folder) / part / run.device / run.environment_id
            for name in (f"plan/{run.plan_file(op).name}", "environment.jsonl"):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(run.folder / name, place / name)
            write_records(place / "measurements" / f"{op}.jsonl", [*sessions, *part_rows])
            parts.append(RunFolder.at(place))
        before, last = parts
        points = compare(before, last)["points"]
    if not points:
        raise ValueError(f"{publication}: the last session of {op} visited no point of the others")
    holding = sum(point["low"] <= 0 <= point["high"] for point in points)
    moved = sum(point["verdict"] in {"FASTER", "SLOWER"} for point in points)
    changes = np.abs([point["raw"] for point in points])
    plan = read_records(run.plan_file(op), PlanPoint)
    regimes = {p.point_id: BY_NAME[op].regime(p.shape) for p in plan}
    by_tables = ratios_that_hold_one(*halves, kinds=[regimes[row.point_id] for row in halves[0]])
    return {
        "repeat_points": str(len(points)),
        "repeat_holding": f"{holding} ({holding / len(points):.0%})",
        "repeat_by_tables": f"{sum(by_tables)} ({np.mean(by_tables):.0%})",
        "repeat_median": f"{100 * np.median(changes):.1f} %",
        "repeat_95": f"{100 * np.quantile(changes, 0.95):.1f} %",
        "repeat_moved": str(moved),
    }


def ratios_that_hold_one(
    before: Sequence[Measurement], last: Sequence[Measurement], kinds: Sequence[str]
) -> list[bool]:
    """Whether the ratio of two rows of a point holds 1, by intervals as tables print them.

    kinds: the regime of each point.
    """
    ends = [
        point_intervals([visit_times(row) for row in rows], kinds=kinds) for rows in (before, last)
    ]
    ratios = (time_ratio(a.ends, b.ends) for a, b in zip(*ends, strict=True) if a and b)
    return [bool(low <= 1 <= high) for _, low, high in ratios]


def split_at_last(
    sessions: Sequence[Session], rows: Sequence[Measurement]
) -> tuple[list[Measurement], list[Measurement]]:
    """(rows of the visits before the last session, those of its own), of points that have both."""
    last = max(sessions, key=lambda session: session.started_utc).session_id
    before, after = [], []
    for row in rows:
        visits = split_visits(row)
        its_own = [visit for visit in visits if visit.session_id == last]
        others = [visit for visit in visits if visit.session_id != last]
        if its_own and others:
            before.append(merged_visits(others))
            after.append(merged_visits(its_own))
    return before, after


def settling_slowdown(gemm: pd.DataFrame) -> "pd.Series[float]":
    """Settled time over that of the first turn, less 1, of products of 100 us and more."""
    is_first_replay = (gemm["method"] == "graph") & (gemm["repeat"] == 0)
    rows = gemm[is_first_replay & (gemm["status"] == "ok") & (gemm["median_s"] >= 1e-4)]
    slowdown: pd.Series[float] = rows["median_s"] / rows["burst_median_s"] - 1
    return slowdown


def _range_text(ratios: "pd.Series[float]") -> str:
    return f"{ratios.min():.2f} to {ratios.max():.2f}"


def with_numbers(page: str, numbers: dict[str, str]) -> str:
    """The page with its marked numbers; raises KeyError for a mark that `numbers` lacks."""
    return _NUMBER.sub(lambda mark: f"{mark[1]}{numbers[mark[2]]}{mark[3]}", page)


if __name__ == "__main__":
    numbers = measured_numbers(tables_of_publication())
    for file in PAGES:
        text = file.read_text(encoding="utf-8")
        file.write_text(with_numbers(text, numbers), encoding="utf-8")
        print(file)
