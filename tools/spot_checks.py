"""Measure a few products to check what the published numbers rest on, for tools/gpu_session.sh.

`spot_checks.py repeat FOLDER`  96 products of `standard` in two sessions, and every fourth alone
                                until it has settled: do intervals hold what is measured next, and
                                how far are times in turns from times alone?
`spot_checks.py energy FOLDER`  the points of `full` whose energy counter is read: how far is it
                                from the power that was integrated over the same time?
`spot_checks.py unlisted FOLDER --seed S`
                                layers of models that no study lists, drawn by the seed, each alone
                                until it has settled, in five minutes: how wrong are predictions?
                                `roofcal publish --judged` publishes such records
`spot_checks.py parts FOLDER`   ten linears in three recipes, forward and backward, beside their
                                products and casts, each alone until it has settled: how much longer
                                is the sum of the parts than the linear?

Records go to run folders below FOLDER; a second call goes on where the first was stopped.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from roofcal.compare.comparison import compare
from roofcal.core import paths
from roofcal.core.devices import load_devices
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.paths import RunFolder, RunsError, find_run
from roofcal.core.records import Environment, Measurement, PlanPoint, Session
from roofcal.core.statistics import summarise
from roofcal.core.visits.rows import is_sentinel
from roofcal.judge.errors import error_lines, error_sentences, errors_of_seed
from roofcal.judge.layers import ALONE, unlisted_points
from roofcal.measure.session import Job, measure
from roofcal.ops.linear.model import TENSORS, parts_of, product_sides
from roofcal.points.power import counted_power, integrated_power
from roofcal.points.run import load_run
from roofcal.study.config import Study, load_study
from roofcal.study.discover import discover
from roofcal.study.plan import plan_op
from roofcal.study.staleness import measure_hash

OP: Final = "gemm"
_PRODUCTS: Final = 96  # 8 minutes on an H200, both sessions and those alone
# Of `parts`: tokens, and weights of layers and a square.
_LINEARS: Final = (
    *((1024, 1280, 3840), (1024, 6144, 3072), (2048, 2304, 1152), (8192, 4096, 1280)),
    *((2048, 12032, 4608), (1024, 1536, 15360), (8192, 3584, 18944), (2048, 28672, 3584)),
    *((4096, 4096, 4096), (10656, 1536, 3072)),
)
_PAIRS: Final = (("bf16_compile", "bf16"), ("triton", "fp8_axiswise"), ("triton", "fp8_tensorwise"))
_ALONE_EVERY: Final = 4  # a product alone takes three seconds to settle
# Of points of `unlisted` and `parts`: a second each, not three.
_SHORTLY_ALONE: Final = {"alone_turn_s": 0.12, "settle_min_s": 0.2, "settle_tolerance": 0.02}


def main() -> None:
    """Measure, then print the answers, a line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("check", choices=("repeat", "energy", "unlisted", "parts"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, help="of unlisted: it draws the layers")
    options = parser.parse_args()
    if (options.check == "unlisted") != (options.seed is not None):
        parser.error("unlisted needs --seed, and no other check takes one")
    environment = discover(paths.DEVICES)[0]
    if options.check == "unlisted":
        lines = unlisted_lines(options.folder, environment, options.seed)
    else:
        checks = {"repeat": repeat_lines, "energy": energy_lines, "parts": parts_lines}
        check = checks[options.check]
        lines = check(options.folder, environment)
    print(*lines, sep="\n")


def repeat_lines(folder: Path, environment: Environment) -> list[str]:
    """How well two sessions agree, and times in turns with those alone."""
    study = load_study(paths.CONFIG, {"study": "standard"})
    plan = plan_op(study.op_slice(OP, environment.backend), environment)
    points = products_in_turns(plan, _PRODUCTS)
    # A session without sentinels cannot be put on one scale with any other.
    with_panel = [*filter(is_sentinel, plan), *points]
    first = measured(folder / "first", with_panel, environment, study)
    measured(folder / "second", with_panel, environment, study)
    alone = [
        replace(point, protocol=replace(point.protocol, method="alone"))
        for point in points[::_ALONE_EVERY]
    ]
    settled = measured(folder / "alone", alone, environment, study)
    return [
        agreement_line(run_folder(folder / "first", environment), folder / "second"),
        alone_line(median_by_work(first, points), median_by_work(settled, alone)),
    ]


def energy_lines(folder: Path, environment: Environment) -> list[str]:
    """The counter over the integrated power, point by point, and in the whole."""
    study = load_study(paths.CONFIG, {"study": "full"})
    plan = plan_op(study.op_slice(OP, environment.backend), environment)
    points = [point for point in plan if point.protocol.method == "energy"]
    rows = measured(folder, points, environment, load_study(paths.CONFIG, {"study": "quick"}))
    ratios = []
    lines = []
    for point, row in zip(points, rows, strict=True):
        counter = counted_power(row) if row.status == "ok" else None
        power = integrated_power(row, "energy", environment.power_limit_w) if counter else None
        label = f"{point.provider} {point.recipe} {dict(point.shape)}"
        if counter is None or power is None:
            lines.append(f"{label}: {row.reason or 'no counter or no reading of power'}")
            continue
        ratios.append(counter.watts / power.watts - 1)
        lines.append(f"{label}: {counter.watts:.0f} W, counter over power {ratios[-1]:+.2%}")
    if not ratios:
        return [*lines, "energy: no point has both counter and power"]
    largest = max(map(abs, ratios))
    return [
        *lines,
        f"energy: {len(ratios)} of {len(points)} points have both; counter over power - 1 is "
        f"{median(ratios):+.2%} in the median and {largest:.2%} at most",
    ]


def unlisted_lines(folder: Path, environment: Environment, seed: int) -> list[str]:
    """The errors of predictions on the layers that a seed draws: a table, then a line of each op.

    Predictions are those of this environment's run, measured here or published, or else of the
    device's latest. Raises SystemExit on a machine without a GPU.
    """
    study = study_of_points_alone(environment)
    place = folder / f"seed{seed}"
    for points in unlisted_points(seed, environment.device).values():
        measured(place, points, environment, study)
    judged = run_folder(place, environment)
    try:
        own = find_run(environment.device, environment.environment_id)
    except RunsError:
        own = find_run(environment.device)
    run = load_run(own.folder, own.derived)
    errors = errors_of_seed(seed, judged, run, load_devices(paths.DEVICES).get(own.device))
    if errors.empty:
        return [f"{own.folder}: has no calibration that predicts; records are in {judged.folder}"]
    return [*error_lines(errors), f"seed {seed} by {own.folder}:", *error_sentences(errors)]


def study_of_points_alone(environment: Environment) -> Study:
    """The quick study with short turns of points alone; SystemExit on a machine without a GPU."""
    if environment.backend == "cpu":
        raise SystemExit("layers are measured alone on GPUs, and this machine has none")
    overrides = {"study": "quick", "timing_of_study": {"quick": _SHORTLY_ALONE}}
    return load_study(paths.CONFIG, overrides)


def parts_lines(folder: Path, environment: Environment) -> list[str]:
    """The sum of the products and casts of linears over the linears: a line of each recipe.

    Raises SystemExit on a machine without a GPU.
    """
    study = study_of_points_alone(environment)
    linears = [
        _alone("linear", pair, dict(zip("mnk", sides, strict=True)), environment.device)
        for sides in _LINEARS
        for pair in _PAIRS
    ]
    parts = [part for linear in linears for part in products_and_casts(linear)]
    for op in ("linear", "gemm", "cast"):
        points = {p.point_id: p for p in [*linears, *parts] if p.op == op}
        measured(folder, list(points.values()), environment, study)
    return sums_lines(run_folder(folder, environment), linears)


def sums_lines(run: RunFolder, linears: Iterable[PlanPoint]) -> list[str]:
    """By records: how much longer than linears the sums of their parts are.

    What a cast stores transposed in the same pass is not measured apart and not in the sum.
    """
    seconds = {
        row.point_id: summarise(row.settled_samples_s).median
        for op in ("linear", "gemm", "cast")
        for row in read_records(run.measurements_file(op), Session, Measurement)
        if isinstance(row, Measurement) and row.status == "ok"
    }
    logs: dict[str, list[float]] = {}
    for linear in linears:
        parts = products_and_casts(linear)
        if linear.point_id in seconds and all(part.point_id in seconds for part in parts):
            whole = sum(seconds[part.point_id] for part in parts)
            logs.setdefault(linear.recipe, []).append(np.log(whole / seconds[linear.point_id]))
    if not logs:
        return [f"parts: no linear has a time and all of its parts; records are in {run.folder}"]
    return [
        f"{recipe}: the parts of {len(own)} linears take {np.mean(own):+.1%} longer alone, "
        f"standard deviation {np.std(own):.1%}"
        for recipe, own in logs.items()
    ]


def products_and_casts(linear: PlanPoint) -> list[PlanPoint]:
    """The parts of a linear as points of their own ops; products are the library's."""
    parts, sides = parts_of(linear.provider, linear.recipe), linear.shape
    sizes = tuple(np.array([float(sides[axis])]) for axis in "mnk")
    products = [
        ("gemm", ("cublaslt", recipe), "mnk", [int(side.item()) for side in own])
        for name, recipe in parts.products.items()
        for own in [product_sides(name, recipe, (sizes[0], sizes[1], sizes[2]))]
    ]
    casts = [
        ("cast", (parts.casts_by, recipe), ("rows", "cols"), [sides[a] for a in TENSORS[tensor]])
        for tensor, recipe in parts.casts
    ]
    return [
        _alone(op, pair, dict(zip(axes, own, strict=True)), linear.device)
        for op, pair, axes, own in [*products, *casts]
    ]


def _alone(op: str, pair: tuple[str, str], shape: dict[str, int], device: str) -> PlanPoint:
    provider, recipe = pair
    return PlanPoint(
        op=op,
        provider=provider,
        recipe=recipe,
        shape=shape,
        device=device,
        protocol=ALONE,
        sweeps=("parts",),
    )


def products_in_turns(points: Sequence[PlanPoint], count: int) -> list[PlanPoint]:
    """About `count` products of a plan that are timed in turns, in whole groups of contenders.

    Groups are taken at even distances, so that products of all sizes are among them.
    """
    timed = [p for p in points if p.protocol.method == "graph" and not is_sentinel(p)]
    groups = list(dict.fromkeys(point.group_key for point in timed))
    kept = set(groups[:: max(1, len(timed) // count)])
    return [point for point in timed if point.group_key in kept]


def run_folder(folder: Path, environment: Environment) -> RunFolder:
    """The run folder of the device here below a folder."""
    return RunFolder.at(folder / environment.device / environment.environment_id)


def measured(
    folder: Path, points: Sequence[PlanPoint], environment: Environment, study: Study
) -> list[Measurement]:
    """The rows of a session on some points of one op, with the timing of a study."""
    run, op = run_folder(folder, environment).folder, points[0].op
    write_records(run / "environment.jsonl", [environment])
    write_records(run / "plan" / f"{op}.jsonl", points)
    return measure(
        Job(
            plan=run / "plan" / f"{op}.jsonl",
            environment=run / "environment.jsonl",
            timing=study.timing(environment.backend),
            journal=run / "journal" / f"{op}.jsonl",
            out=run / "measurements" / f"{op}.jsonl",
            code_hash_of=measure_hash,
        )
    )


def median_by_work(
    rows: Iterable[Measurement], points: Iterable[PlanPoint]
) -> dict[tuple[str, str, str], float]:
    """Seconds by provider, recipe and shape; points without a time are left out."""
    times = {row.point_id: row.settled_samples_s for row in rows if row.status == "ok"}
    return {
        (point.provider, point.recipe, str(dict(point.shape))): summarise(samples).median
        for point in points
        if (samples := times.get(point.point_id))
    }


def agreement_line(first: RunFolder, second: Path) -> str:
    """How well two sessions agree, by `compare`."""
    other = RunFolder.at(second / first.device / first.environment_id)
    points = [row for row in compare(first, other)["points"] if not row["repeat"]]
    if not points:
        return "second session: no product has a time in both sessions"
    holding = sum(point["low"] <= 0 <= point["high"] for point in points)
    changes = sorted(abs(point["raw"]) for point in points)
    return (
        f"second session: {holding} of {len(points)} products ({holding / len(points):.0%}) have a "
        f"95 % interval of the difference that holds zero; |difference| {_spread(changes)}"
    )


def alone_line(
    in_turns: dict[tuple[str, str, str], float], alone: dict[tuple[str, str, str], float]
) -> str:
    """How far times in turns lie from those alone and settled."""
    changes = [abs(in_turns[key] / alone[key] - 1) for key in alone if key in in_turns]
    if not changes:
        return "alone, settled: no product has both times"
    return f"alone, settled: {len(changes)} products; |in turns / alone - 1| {_spread(changes)}"


def _spread(changes: Sequence[float]) -> str:
    tail = float(np.quantile(changes, 0.95))
    return f"{median(changes):.2%} in the median, {tail:.2%} at the 95th percentile"


if __name__ == "__main__":
    main()
