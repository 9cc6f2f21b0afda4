"""The columns of the table of points: a quantity of a point is one line of COLUMNS.

Tables of the report, as pages, CSV and JSON, hover texts, `calibrate`, `compare` and `health` take
it from here. Lines are in the order of the CSV files; docs/data.md says what each column means.
`relative_error` is predicted / measured - 1 of the calibrated model, `numeric_error` how far the
output is from its reference, `quantisation_error` what rounding the operands costs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Literal

from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import CALIBRATED
from roofcal.core.recipes import Work
from roofcal.core.records import TIMELESS, Measurement, PlanPoint, Prediction, SettledTurns
from roofcal.core.visits.intervals import VisitTime, visit_times
from roofcal.core.visits.rows import VisitState, states_of_visits
from roofcal.ops.spec import OpSpec
from roofcal.points.power import BoardPower, board_power, counted_power, integrated_power
from roofcal.points.roofs import CalibratedRoof, datasheet_seconds

if TYPE_CHECKING:
    import pandas as pd

MODEL: Final = CALIBRATED  # the model behind predicted_s; every other has a column <model>_s
FORMULAS: Final = ("datasheet", "torchao")  # models with a column <model>_s in every table
PROTOCOL: Final = ["method", "cache", "distribution"]
INTERVAL_HOLDS: Final = "interval_holds"  # how far an interval of measured times can be trusted
VISITS: Final = "visits"  # how many visits of a point have a time
STATES: Final = "states_s"  # of points with several: see `_states`
PEAK_BYTES: Final = "peak_bytes"
RANK_SPREAD: Final = "rank_spread"  # slowest / fastest rank - 1; ops on several devices have it
OUR_PROVIDERS: Final = ("triton", "symm_mem_fused")  # so begin those of kernels in kernels/
# Columns of objects, of which others are made; no table has them.
POINT: Final = "point"  # the planned point
VISIT_TIMES: Final = "visit_times"  # the VisitTime of every visit with a time
SENTINEL_MEDIANS: Final = "sentinel_medians"  # of the sentinel that is the same point, in s
INTERVAL: Final = "interval"  # the PointInterval; None without a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What columns may use of a run besides its plan and measurements.

    predictions  model -> point_id -> prediction
    """

    power_limit_w: float | None = None
    spec: DeviceSpec | None = None
    roof: CalibratedRoof = field(default_factory=lambda: CalibratedRoof(None))
    predictions: Mapping[str, Mapping[str, Prediction]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SeenPoint:
    """One planned point with its row of measurements: what the values of columns are made of.

    row           of a point that was not measured, one of status NOT_REACHED
    recorded      place of the row in its file; -1 for a point that was not measured
    visit_number  of a row that is one visit of a sentinel, from 1; else 0
    """

    point: PlanPoint
    op: OpSpec
    known: Known
    row: Measurement
    recorded: int = -1
    visit_number: int = 0

    @cached_property
    def settled_turns_s(self) -> SettledTurns:
        """The samples that count, by visit and turn."""
        return self.row.settled_turns_s

    @cached_property
    def visit_times(self) -> tuple[VisitTime, ...]:
        """The time of each visit that has one."""
        return visit_times(self.row, self.settled_turns_s)

    @cached_property
    def settled_readings(self) -> tuple[int, ...]:
        """Positions of the telemetry readings beside samples that count."""
        return self.row.settled_readings

    def readings(self, sensor: str) -> Sequence[Any]:
        """Readings of a sensor since the clock settled; all of them if none is that late."""
        values = getattr(self.row.telemetry, sensor)
        return [values[position] for position in self.settled_readings or range(len(values))]

    @cached_property
    def throttle_shares(self) -> Mapping[str, float]:
        """Reason to run slower -> share of the readings that name it."""
        named = self.readings("throttle_reasons")
        reasons = sorted({reason for entry in named for reason in entry})
        return {reason: sum(reason in entry for entry in named) / len(named) for reason in reasons}

    @cached_property
    def work(self) -> Work:
        """Its least work."""
        return self.op.work_of(self.point.provider, self.point.recipe, self.point.shape)

    @cached_property
    def power(self) -> BoardPower | None:
        """The power of the board where a reading is the point's own.

        None on several devices, because telemetry is that of the first rank.
        """
        if self.visit_number or self.point.world_size > 1:
            return None
        return board_power(self.row, self.point.protocol.method, self.known.power_limit_w)


Kind = Literal["number", "text", "count", "object"]
OfPoint = Callable[[SeenPoint], Any]
OfTable = Callable[["pd.DataFrame"], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A quantity of a point.

    of       its value at one point; None for a column that is made of others
    over     its values in all rows, made of the columns that stand before it and those of objects
    where    the table has it where any point has a value of that column; "": always
    label    its heading in the page's table of points, "" where that table does not show it or
             places it by hand; `note` explains the heading, `unit` is that of the numbers
    hover    its name in the hover text of charts; "" where charts leave it out
    """

    name: str
    kind: Kind = "number"
    of: OfPoint | None = None
    over: OfTable | None = None
    where: str = ""
    unit: str = ""
    label: str = ""
    note: str = ""
    hover: str = ""


def _of_interval(name: str) -> OfTable:
    return lambda table: [None if i is None else getattr(i, name) for i in table[INTERVAL]]


def _rate(work: str) -> OfTable:
    return lambda table: (table[work] / table["median_s"]).where(table[work] > 0)


def _size(axis: str) -> OfPoint:
    return lambda p: p.point.shape[axis]


def _if_measured(name: str) -> OfPoint:
    return lambda p: getattr(p.row, name) if p.recorded >= 0 else None


def _median_reading(sensor: str) -> OfPoint:
    return lambda p: median(readings) if (readings := p.readings(sensor)) else None


def _burst(p: SeenPoint) -> float | None:
    """Median of the first turn: samples taken before the card could warm to this work."""
    row = p.row
    if row.status != "ok" or not row.warmup_samples:
        return None
    second_turn = next((s for s in row.slice_starts if s > 0), len(row.latency_samples_s))
    return median(row.latency_samples_s[: min(second_turn, row.warmup_samples)])


def _of_model(model: str, field: str) -> OfPoint:
    """A field of a model's prediction.

    None for a point that was tried and has no time of its own.
    """

    def value(p: SeenPoint) -> Any:
        prediction = p.known.predictions.get(model, {}).get(p.row.point_id)
        is_told = prediction is not None and p.row.status not in TIMELESS
        return getattr(prediction, field) if is_told else None

    return value


def _datasheet(p: SeenPoint) -> float | None:
    """Least time by the datasheet; also of probes, which no model predicts."""
    own = None if p.row.status in TIMELESS else datasheet_seconds(p.work, p.known.spec)
    return _of_model("datasheet", "total_s")(p) or own


def _calibrated_bound(p: SeenPoint) -> float | None:
    own = None if p.row.status in TIMELESS else p.known.roof.seconds(p.point.recipe, p.work)
    return own or None


def _integrated(p: SeenPoint) -> float | None:
    """Power integrated over time, where the energy counter was read, too."""
    if not p.power or not counted_power(p.row):
        return None
    power = integrated_power(p.row, p.point.protocol.method, p.known.power_limit_w)
    return None if power is None else power.watts


def read_states(text: str) -> list[VisitState]:
    """The states of a cell of STATES, their times to its four digits."""
    parts = [part.removesuffix(")").split(" (") for part in text.split("; ")]
    return [VisitState(seconds=float(seconds), visits=int(count)) for seconds, count in parts]


def _states(table: "pd.DataFrame") -> list[str | None]:
    """Of each row with several states, their times in s with the number of visits in brackets.

    '0.000109 (2); 0.0001213 (1)'. Repetitions of its sentinel count as visits.
    """
    texts: list[str | None] = []
    for visits, again in zip(table[VISIT_TIMES], table[SENTINEL_MEDIANS], strict=True):
        states = states_of_visits([*(visit.median for visit in visits), *again] if visits else ())
        text = "; ".join(f"{state.seconds:.4g} ({state.visits})" for state in states)
        texts.append(text if len(states) > 1 else None)
    return texts


def interval_columns(model: str) -> tuple[str, str]:
    """Columns of both ends of a model's intervals; a table has them if the model states any."""
    name = "predicted" if model == MODEL else model
    return f"{name}_low_s", f"{name}_high_s"


def columns_of_models(predictions: Mapping[str, Mapping[str, Prediction]]) -> list[Column]:
    """Columns of all models but MODEL: seconds, and the interval of models that state one.

    predictions: model -> point_id -> prediction.
    """
    columns: list[Column] = []
    for model in sorted(predictions):
        if model != MODEL:
            fields = dict(zip(interval_columns(model), ("low_s", "high_s"), strict=True))
            if all(p.low_s is None for p in predictions[model].values()):
                fields = {}
            for name, field in {f"{model}_s": "total_s", **fields}.items():
                columns.append(Column(name, "number", _of_model(model, field)))
    return columns


IDENTITY: Final = (
    Column("op", "text", lambda p: p.point.op),
    Column("provider", "text", lambda p: p.point.provider, hover="provider"),
    Column("recipe", "text", lambda p: p.point.recipe),
)
# Behind IDENTITY stand the axes of the op, then these.
COLUMNS: Final = (
    Column("world_size", "count", lambda p: p.point.world_size),
    Column("status", "text", lambda p: p.row.status),
    Column("reason", "text", lambda p: p.row.reason),
    Column("median_s", over=_of_interval("median")),
    Column("ci95_low_s", over=_of_interval("ci95_low")),
    Column("ci95_high_s", over=_of_interval("ci95_high")),
    Column("achieved_flops_per_s", over=_rate("flops")),
    Column("achieved_bytes_per_s", over=_rate("dram_bytes")),
    Column("predicted_s", "number", _of_model(MODEL, "total_s")),
    Column("relative_error", over=lambda table: table["predicted_s"] / table["median_s"] - 1),
    Column(INTERVAL_HOLDS, over=_of_interval("holds"), kind="text"),
    Column(VISITS, "count", lambda p: len(p.visit_times)),
    Column(STATES, over=_states, kind="text"),
    Column("method", "text", lambda p: p.point.protocol.method),
    Column("cache", "text", lambda p: p.point.protocol.cache),
    Column("distribution", "text", lambda p: p.point.protocol.distribution),
    Column("repeat", "count", lambda p: p.visit_number or p.point.repeat),
    Column("regime", "text", lambda p: p.op.regime(p.point.shape)),
    Column("sweeps", "text", lambda p: ";".join(p.point.sweeps)),
    Column("datasheet_s", "number", _datasheet),
    Column("torchao_s", "number", _of_model("torchao", "total_s")),
    Column("predicted_low_s", "number", _of_model(MODEL, "low_s")),
    Column("predicted_high_s", "number", _of_model(MODEL, "high_s")),
    Column("bound_by", "text", _of_model(MODEL, "bound_by")),
    Column("burst_median_s", "number", _burst),
    Column("sm_clock_hz", "number", _median_reading("sm_clock_hz"), unit="Hz", hover="clock"),
    Column("power_w", "number", _median_reading("power_w")),
    Column("temperature_c", "number", _median_reading("temperature_c")),
    Column("throttle_reasons", "text", lambda p: ";".join(sorted(p.throttle_shares)) or None),
    Column(
        "numeric_error",
        "number",
        lambda p: p.row.relative_error,
        unit="relative",
        label="numeric error",
        note="relative distance of the output from its reference",
    ),
    Column(
        "quantisation_error",
        "number",
        lambda p: p.row.quantisation_error,
        unit="relative",
        label="format error",
        note="what rounding the operands to the format costs, whoever multiplies",
    ),
    Column(
        "kernel_names",
        "text",
        lambda p: "; ".join(dict.fromkeys(p.row.kernel_names)) or None,
        hover="kernel",
    ),
    Column("point_id", "text", lambda p: p.row.point_id),
    Column("samples", "count", lambda p: sum(len(t) for turns in p.settled_turns_s for t in turns)),
    Column("flops", "number", lambda p: p.work.flops),
    Column("dram_bytes", "number", lambda p: p.work.dram_bytes),
    Column("calibrated_bound_s", "number", _calibrated_bound),
    Column("rotating_bytes", "number", _if_measured("rotating_bytes")),
    Column("session_id", "text", _if_measured("session_id")),
    Column("started_s", "number", _if_measured("started_s")),
)
# Of tables with a point that has them; behind COLUMNS and the decibels of outputs.
RARE: Final = (
    Column(
        PEAK_BYTES,
        "number",
        lambda p: p.row.peak_bytes,
        where=PEAK_BYTES,
        unit="B",
        label="memory",
        note="peak device memory of one call, beyond its inputs",
    ),
    Column(
        RANK_SPREAD,
        "number",
        lambda p: max(of_ranks) / min(of_ranks) - 1 if (of_ranks := p.row.rank_medians_s) else None,
        where=RANK_SPREAD,
    ),
    Column("board_w", "number", lambda p: p.power and p.power.watts, where="board_w"),
    Column("board_low_w", "number", lambda p: p.power and p.power.low, where="board_w"),
    Column("board_high_w", "number", lambda p: p.power and p.power.high, where="board_w"),
    Column("energy_by", "text", lambda p: p.power and p.power.basis, where="board_w"),
    Column("idle_w", "number", lambda p: p.power and p.power.idle_w, where="board_w"),
    Column("integrated_w", "number", _integrated, where="board_w"),
)
# Energy of one call, with the ends of power and time together, per FLOP and per token (row of A):
# of the board by NVML, not at the wall. They stand last.
ENERGY: Final = (
    Column("energy_j", over=lambda t: t["board_w"] * t["median_s"], where="board_w"),
    Column("energy_low_j", over=lambda t: t["board_low_w"] * t["ci95_low_s"], where="board_w"),
    Column("energy_high_j", over=lambda t: t["board_high_w"] * t["ci95_high_s"], where="board_w"),
    Column(
        "energy_j_per_flop",
        over=lambda t: (t["energy_j"] / t["flops"]).where(t["flops"] > 0),
        where="board_w",
    ),
    Column("energy_j_per_token", over=lambda t: t["energy_j"] / t["m"], where="m"),
)


def declared(*names: str) -> list[Column]:
    """Columns of COLUMNS by their names."""
    by_name = {column.name: column for column in COLUMNS}
    return [by_name[name] for name in names]


def columns_of(op: OpSpec) -> list[Column]:
    """The columns that every table of an op has, in their order."""
    axes = [Column(axis, "count", _size(axis)) for axis in op.axes]
    return [*IDENTITY, *axes, *COLUMNS]
