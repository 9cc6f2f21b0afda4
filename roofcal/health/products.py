"""Measure products that a person asks for on this card, beside their predictions: `time`."""

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from roofcal.ask.answers import Answer, Column, Part, Record, Table, Verdict, filled, span
from roofcal.ask.devices import device_sources
from roofcal.ask.points import recipe_named
from roofcal.core import paths
from roofcal.core.files import write_bytes
from roofcal.core.jsonl import append_record, read_plan, read_records, write_records
from roofcal.core.names import did_you_mean_or_all
from roofcal.core.paths import RunFolder
from roofcal.core.records import TIMELESS, Environment, PlanPoint, Prediction
from roofcal.core.units import format_bytes
from roofcal.core.visits.intervals import MEANINGS
from roofcal.core.visits.rows import load_texts
from roofcal.measure.session import Job, compiling, measure
from roofcal.measure.supervisor import MeasureError
from roofcal.models import calibrated
from roofcal.models.errors import PredictError, checked_sizes
from roofcal.models.registry import predict_points
from roofcal.ops import BY_NAME, point_problem
from roofcal.ops.time_models import Sources
from roofcal.points.run import load_run
from roofcal.points.tables import asked_table_file
from roofcal.report.data.table_files import as_csv
from roofcal.study.config import Study, load_study
from roofcal.study.discover import discover
from roofcal.study.plan import plan_op
from roofcal.study.staleness import measure_hash

_OP: Final = BY_NAME["gemm"]
_SWEEP: Final = "asked"
_COLUMNS: Final = (
    Column("shape", "{m}x{n}x{k}", left=True),
    Column("recipe", "{recipe}", left=True),
    Column("provider", "{provider}", left=True),
    Column("time", "{measured_s:time}", group="measured"),
    Column(
        "95 %", lambda row: span(row["measured_low_s"], row["measured_high_s"]), group="measured"
    ),
    Column("TFLOP/s", "{measured_flops_per_s:T.4g}", group="measured"),
    Column("time", "{predicted_s:time}", group="predicted"),
    Column(
        "95 %", lambda row: span(row["predicted_low_s"], row["predicted_high_s"]), group="predicted"
    ),
    Column("excess", "{excess:+.1%}", group="predicted"),
    Column(
        "inside",
        lambda row: {True: "yes", False: "no", None: ""}[row["is_inside"]],
        group="predicted",
    ),
)


@dataclass(frozen=True, kw_only=True)
class TimedProducts(Answer):
    """Products that were measured just now, beside their predictions.

    Attributes:
        device, environment: where they were measured.
        predicted_in: environment of the calibration that predicts them; None without one.
        not_predicted: why no calibration answers; None where one does.
        folder: the run folder that keeps the records.
        disturbances: what else kept the machine busy, in sentences; with any, no other answer uses
            the times.
        products: a record per shape, recipe and provider; the shapes as they were asked for, of
            each the fastest product first. Times are in seconds, with both ends of their 95 %
            intervals. excess: measured over predicted time, minus 1. is_inside: whether the
            measured time lies in the interval of the prediction. What has no value is None.
    """

    device: str
    environment: str
    predicted_in: str | None
    not_predicted: str | None
    folder: str
    disturbances: tuple[str, ...]
    products: tuple[Record, ...]

    @property
    def answer(self) -> dict[str, Any]:
        """Everything as `roofcal time --json` prints it."""
        return asdict(self)

    def rows(self) -> list[dict[str, Any]]:
        """The products."""
        return [dict(product) for product in self.products]

    def parts(self) -> Iterator[Part]:
        """The fastest of each shape; a table, what has no time, and what the times hold for."""
        timed = [product for product in self.products if product["measured_s"] is not None]
        fastest: dict[tuple[int, ...], dict[str, Record]] = {}  # shape -> recipe -> its fastest
        for product in timed:
            shape = tuple(product[axis] for axis in "mnk")
            fastest.setdefault(shape, {}).setdefault(product["recipe"], product)
        for by_recipe in fastest.values():
            first = next(iter(by_recipe.values()))
            bf16 = by_recipe.get("bf16", first)
            rank = "was the fastest product," if len(by_recipe) > 1 else "took"
            over = ""
            if bf16 is not first:
                over = f", {bf16['measured_s'] / first['measured_s']:.2f}x bf16"
            said = f"{{recipe}} by {{provider}} {rank} {{measured_s:time}}{over}, casts not counted"
            yield Verdict(filled(f"{{m}}x{{n}}x{{k}}: {said}", first))
        if self.disturbances:
            yield f"disturbed, so no other answer uses these times: {' '.join(self.disturbances)}"
        yield ""
        yield Table(timed, _COLUMNS)
        yield from _without_time(self.products)
        yield f"measured on {self.device}, {self.environment}"
        holds = dict.fromkeys(MEANINGS[product["interval_holds"]] for product in timed)
        yield f"intervals of measured times cover {' or '.join(holds)}"
        yield self.not_predicted or f"predicted by model calibrated, {self.predicted_in}"
        yield f"kept in {self.folder}"


def time_products(shapes: Sequence[Sequence[int]], recipes: Iterable[str] = ()) -> TimedProducts:
    """See roofcal.api.time_products."""
    environment = discover(paths.DEVICES)[0]
    # Its short visits: config.yaml says how far their medians are from those of long ones.
    study = load_study(paths.CONFIG, {"study": "minute"})
    points = _asked_points(study, environment, shapes, recipes)
    run = RunFolder.at(paths.RESULTS / environment.device / environment.environment_id)
    _measure(run.asked, points, environment, study.timing(environment.backend))
    measured, sessions = load_run(run.asked.folder).points(_OP.name)
    # Beside busy cores a product took 450 times as long as predicted: no answer may rest on that.
    is_cpu = environment.vendor == "cpu"
    disturbances = {own.session_id: load_texts([own], is_cpu=is_cpu) for own in sessions}
    quiet = measured[[not disturbances.get(name) for name in measured["session_id"]]]
    labelled = quiet.assign(environment_id=environment.environment_id)
    write_bytes(asked_table_file(run, _OP.name), as_csv(labelled).encode())

    sources, not_predicted = _sources(environment)
    predicted = predict_points(calibrated, points, sources) if sources else []
    predictions = {prediction.point_id: prediction for prediction in predicted}
    rows = {row["point_id"]: row for row in measured.to_dict("records")}
    products = [_product(p, rows[p.point_id], predictions.get(p.point_id)) for p in points]
    if all(product["measured_s"] is None for product in products):
        raise MeasureError("\n".join(["nothing has a time:", *_without_time(products)]))
    places = {tuple(shape): place for place, shape in enumerate(shapes)}
    products.sort(
        key=lambda one: (places[one["m"], one["n"], one["k"]], one["measured_s"] or math.inf)
    )
    return TimedProducts(
        device=environment.device,
        environment=environment.environment_id,
        predicted_in=sources.environment if sources else None,
        not_predicted=not_predicted,
        folder=run.asked.folder.as_posix(),
        disturbances=tuple(disturbances[sessions[-1].session_id]),
        products=tuple(products),
    )


def _asked_points(
    study: Study, environment: Environment, shapes: Sequence[Sequence[int]], recipes: Iterable[str]
) -> list[PlanPoint]:
    """The shapes in every recipe of the study, or those that are named, by every provider.

    Raises PredictError for a bad shape or recipe, and for one that does not fit the memory.
    """
    op_slice = study.op_slice(_OP.name, environment.backend)
    contenders = op_slice["contenders"]
    named = [recipe_named(recipe, contenders) for recipe in recipes] or list(contenders)
    for recipe in named:
        if recipe not in contenders:
            hint = did_you_mean_or_all(recipe, contenders)
            raise PredictError(
                f"no study measures recipe '{recipe}' on {environment.backend}{hint}"
            )
    for shape in shapes:
        text = "x".join(map(str, shape))
        if len(shape) != len(_OP.axes):
            raise PredictError(
                f"'{text}' is no shape of a product: give m, n and k, as 4096x28672x8192"
            )
        sizes = checked_sizes(**dict(zip(_OP.axes, shape, strict=True)))
        need = max(_OP.work(recipe, sizes).dram_bytes for recipe in named)
        if environment.memory_bytes and need > environment.memory_bytes:
            raise PredictError(
                f"{text} needs {format_bytes(need)}, {environment.device} has "
                f"{format_bytes(environment.memory_bytes)}; give smaller sizes or other recipes"
            )
    sweep = {"shapes": [[int(size) for size in shape] for shape in shapes]}
    asked = {
        "contenders": {recipe: contenders[recipe] for recipe in named},
        "sweeps": {_SWEEP: sweep},
        "models": {},
        "sentinel": [],  # three rounds of four would take as long as the products of a shape
    }
    return plan_op(op_slice | asked, environment)


def _measure(
    run: RunFolder, points: Sequence[PlanPoint], environment: Environment, timing: Mapping[str, Any]
) -> None:
    """Measure points, also those that were measured before, and add their records to a run.

    Of equal points the last row of the file counts, as read_points takes it. Rows of two visits are
    not made of them: two sessions have Student's interval of one degree of freedom, which is six
    times as wide as that of many.
    """
    write_records(run.environment_file, [environment])
    with tempfile.TemporaryDirectory(dir=run.folder, prefix=".") as place:
        plan, out = (Path(place) / name for name in ("plan.jsonl", "out.jsonl"))
        write_records(plan, points)
        # On a GPU beside the worker's start and what it times first. A CPU is measured with all
        # cores, and its kernels come with torch.
        is_cpu = environment.vendor == "cpu"
        with nullcontext() if is_cpu else compiling(plan, run.environment_file):
            measure(
                Job(
                    plan=plan,
                    environment=run.environment_file,
                    timing=timing,
                    journal=run.journal_file(_OP.name),
                    out=out,
                    code_hash_of=measure_hash,
                    retry=("ok", *TIMELESS),
                )
            )
        records = read_records(out)
    file = run.plan_file(_OP.name)
    planned = read_plan(run, _OP.name, point_problem) if file.is_file() else []
    known = {point.point_id for point in planned}
    for point in points:
        if point.point_id not in known:
            append_record(file, point)
    for record in records:
        append_record(run.measurements_file(_OP.name), record)


def _sources(environment: Environment) -> tuple[Sources | None, str | None]:
    """The calibration of an environment, else the latest of its device; or why there is none."""
    problem = ""
    for name in (environment.environment_id, None):
        try:
            return device_sources(environment.device, name, calibrated.MODEL)[0], None
        except PredictError as error:
            problem = f"not predicted: {error}"
    return None, problem


def _product(
    point: PlanPoint, row: Mapping[Any, Any], prediction: Prediction | None
) -> dict[str, Any]:
    """What was measured and predicted of a point, as JSON values; row: of its table."""
    seconds, low_s, high_s, flops_per_s = (
        None if math.isnan(row[name]) else float(row[name])
        for name in ("median_s", "ci95_low_s", "ci95_high_s", "achieved_flops_per_s")
    )
    total_s = prediction.total_s if prediction else None
    low, high = (prediction.low_s, prediction.high_s) if prediction else (None, None)
    is_inside = None
    if seconds is not None and low is not None and high is not None:
        is_inside = low <= seconds <= high
    return {
        **point.shape,
        "recipe": point.recipe,
        "provider": point.provider,
        "status": row["status"],
        "reason": row["reason"],
        "measured_s": seconds,
        "measured_low_s": low_s,
        "measured_high_s": high_s,
        "interval_holds": row["interval_holds"],
        "measured_flops_per_s": flops_per_s,
        "predicted_s": total_s,
        "predicted_low_s": low,
        "predicted_high_s": high,
        "bound_by": prediction.bound_by if prediction else None,
        "excess": seconds / total_s - 1 if seconds and total_s else None,
        "is_inside": is_inside,
    }


def _without_time(products: Iterable[Record]) -> Iterator[str]:
    """A sentence on each product that has no time."""
    for product in products:
        if product["measured_s"] is None:
            yield filled(
                "{m}x{n}x{k} {recipe} by {provider} has no time: {status}: {reason}", product
            )
