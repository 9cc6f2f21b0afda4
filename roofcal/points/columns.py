"""The columns of the table of points: a quantity of a point is one line of COLUMNS.

Whoever lists points takes it from here: the tables of the report, as pages, CSV and JSON, what a
chart says of a point under the pointer, and `calibrate`, `compare` and `health`, which have columns
of their own beside it. Lines are in the order of the CSV files. SI units by suffix; docs/data.md
says what each column means.

`relative_error` is predicted / measured - 1 of the calibrated model. How far the op's output is
from its reference is `numeric_error`; what the formats cost beside it is `quantisation_error`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from roofcal.core.environments import CALIBRATED
from roofcal.core.records import Prediction
from roofcal.core.visits.states import VisitState, states_of_visits
from roofcal.ops.spec import OpSpec

if TYPE_CHECKING:
    import pandas as pd

    from roofcal.points.reader import SeenPoint

MODEL: Final = CALIBRATED  # the model behind predicted_s; every other has a column <model>_s
FORMULAS: Final = ("datasheet", "torchao")  # models with a column <model>_s in every table
PROTOCOL: Final = ["method", "cache", "distribution"]
INTERVAL_HOLDS: Final = "interval_holds"  # how far an interval of measured times can be trusted
VISITS: Final = "visits"  # how many visits of a point have a time
STATES: Final = "states_s"  # of points with several: see `states_text`
PEAK_BYTES: Final = "peak_bytes"
RANK_SPREAD: Final = "rank_spread"  # slowest / fastest rank - 1; ops on several devices have it
# Columns of objects, of which others are made; no table has them.
POINT: Final = "point"  # the planned point
VISIT_TIMES: Final = "visit_times"  # the VisitTime of every visit with a time
SENTINEL_MEDIANS: Final = "sentinel_medians"  # of the sentinel that is the same point, in s
INTERVAL: Final = "interval"  # the PointInterval; None without a time
_SQNR: Final = "_sqnr_db"

Kind = Literal["number", "text", "count", "object"]
OfPoint = Callable[["SeenPoint"], Any]
OfTable = Callable[["pd.DataFrame"], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A quantity of a point.

    of       its value at one point; None for a column that is made of others
    over     its values in all rows, made of the columns that stand before it and those of objects
    where    the table has it where any point has a value of that column; "": always
    label    its title in the table of points of the page, "" where it is not shown there or has a
             place of its own; `note` is what the title says of itself, `unit` that of the numbers
    hover    what charts call it under the pointer; "" where they do not say it
    """

    name: str
    of: OfPoint | None = None
    kind: Kind = "number"
    over: OfTable | None = None
    where: str = ""
    unit: str = ""
    label: str = ""
    note: str = ""
    hover: str = ""


def _text(name: str, of: OfPoint, **how: Any) -> Column:
    return Column(name, of, "text", **how)


def _count(name: str, of: OfPoint) -> Column:
    return Column(name, of, "count")


def _made(name: str, over: OfTable, **how: Any) -> Column:
    return Column(name, over=over, **how)


def _of_interval(name: str) -> OfTable:
    return lambda table: [None if i is None else getattr(i, name) for i in table[INTERVAL]]


def _rate(work: str) -> OfTable:
    return lambda table: (table[work] / table["median_s"]).where(table[work] > 0)


def sqnr_column(output: str) -> str:
    """The column of an output's signal to quantisation noise."""
    return f"{output}{_SQNR}"


def states_text(states: Iterable[VisitState]) -> str:
    """Times in s, each with the number of its visits in brackets: '0.000109 (2); 0.0001213 (1)'."""
    return "; ".join(f"{state.seconds:.4g} ({state.visits})" for state in states)


def read_states(text: str) -> list[VisitState]:
    """The states that `states_text` wrote, their times to its four digits."""
    parts = [part.removesuffix(")").split(" (") for part in text.split("; ")]
    return [VisitState(seconds=float(seconds), visits=int(count)) for seconds, count in parts]


def _states(table: "pd.DataFrame") -> list[str | None]:
    """The states of each row with several, among them those of the sentinel that is it, too."""
    texts: list[str | None] = []
    for visits, again in zip(table[VISIT_TIMES], table[SENTINEL_MEDIANS], strict=True):
        states = states_of_visits([*(visit.median for visit in visits), *again] if visits else ())
        texts.append(states_text(states) if len(states) > 1 else None)
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
                columns.append(Column(name, partial(_predicted, model, field)))
    return columns


def _predicted(model: str, field: str, point: "SeenPoint") -> Any:
    return point.predicted(model, field)


IDENTITY: Final = (
    _text("op", lambda p: p.point.op),
    _text("provider", lambda p: p.point.provider, hover="provider"),
    _text("recipe", lambda p: p.point.recipe),
)
# Behind IDENTITY stand the axes of the op, then these.
COLUMNS: Final = (
    _count("world_size", lambda p: p.point.world_size),
    _text("status", lambda p: p.status),
    _text("reason", lambda p: p.reason),
    _made("median_s", _of_interval("median")),
    _made("ci95_low_s", _of_interval("ci95_low")),
    _made("ci95_high_s", _of_interval("ci95_high")),
    _made("achieved_flops_per_s", _rate("flops")),
    _made("achieved_bytes_per_s", _rate("dram_bytes")),
    Column("predicted_s", lambda p: p.predicted(MODEL, "total_s")),
    _made("relative_error", lambda table: table["predicted_s"] / table["median_s"] - 1),
    _made(INTERVAL_HOLDS, _of_interval("holds"), kind="text"),
    _count(VISITS, lambda p: len(p.visit_times)),
    _made(STATES, _states, kind="text"),
    _text("method", lambda p: p.point.protocol.method),
    _text("cache", lambda p: p.point.protocol.cache),
    _text("distribution", lambda p: p.point.protocol.distribution),
    _count("repeat", lambda p: p.visit_number or p.point.repeat),
    _text("regime", lambda p: p.op.regime(p.point.shape)),
    _text("sweeps", lambda p: ";".join(p.point.sweeps)),
    Column("datasheet_s", lambda p: p.predicted("datasheet", "total_s") or p.datasheet_s),
    Column("torchao_s", lambda p: p.predicted("torchao", "total_s")),
    Column("predicted_low_s", lambda p: p.predicted(MODEL, "low_s")),
    Column("predicted_high_s", lambda p: p.predicted(MODEL, "high_s")),
    _text("bound_by", lambda p: p.predicted(MODEL, "bound_by")),
    Column("burst_median_s", lambda p: p.burst_s),
    Column("sm_clock_hz", lambda p: p.median_reading("sm_clock_hz"), unit="Hz", hover="clock"),
    Column("power_w", lambda p: p.median_reading("power_w")),
    Column("temperature_c", lambda p: p.median_reading("temperature_c")),
    _text("throttle_reasons", lambda p: ";".join(sorted(p.throttle_shares)) or None),
    Column(
        "numeric_error",
        lambda p: p.of_row("relative_error"),
        unit="relative",
        label="numeric error",
        note="distance from the reference, relative",
    ),
    Column(
        "quantisation_error",
        lambda p: p.of_row("quantisation_error"),
        unit="relative",
        label="format error",
        note="distance of the product of the stored operands from that of those before",
    ),
    _text("kernel_names", lambda p: p.kernel_names, hover="kernel"),
    _text("point_id", lambda p: p.point_id),
    _count("samples", lambda p: p.samples),
    Column("flops", lambda p: p.work.flops),
    Column("dram_bytes", lambda p: p.work.dram_bytes),
    Column("calibrated_bound_s", lambda p: p.calibrated_bound_s),
    Column("rotating_bytes", lambda p: p.of_row("rotating_bytes")),
    _text("session_id", lambda p: p.of_row("session_id")),
    Column("started_s", lambda p: p.of_row("started_s")),
)
# Of tables with a point that has them; behind COLUMNS and the decibels of outputs.
RARE: Final = (
    Column(
        PEAK_BYTES,
        lambda p: p.of_row("peak_bytes"),
        where=PEAK_BYTES,
        unit="B",
        label="memory",
        note="most device memory that one call held beyond its inputs",
    ),
    Column(RANK_SPREAD, lambda p: p.rank_spread, where=RANK_SPREAD),
    Column("board_w", lambda p: p.power and p.power.watts, where="board_w"),
    Column("board_low_w", lambda p: p.power and p.power.low, where="board_w"),
    Column("board_high_w", lambda p: p.power and p.power.high, where="board_w"),
    _text("energy_by", lambda p: p.power and p.power.basis, where="board_w"),
    Column("idle_w", lambda p: p.power and p.power.idle_w, where="board_w"),
    Column("integrated_w", lambda p: p.integrated_w, where="board_w"),
)
# Energy of one call, with the ends of power and time together, per FLOP and per token (row of A):
# of the board by NVML, not at the wall. They stand last.
ENERGY: Final = (
    _made("energy_j", lambda t: t["board_w"] * t["median_s"], where="board_w"),
    _made("energy_low_j", lambda t: t["board_low_w"] * t["ci95_low_s"], where="board_w"),
    _made("energy_high_j", lambda t: t["board_high_w"] * t["ci95_high_s"], where="board_w"),
    _made(
        "energy_j_per_flop",
        lambda t: (t["energy_j"] / t["flops"]).where(t["flops"] > 0),
        where="board_w",
    ),
    _made("energy_j_per_token", lambda t: t["energy_j"] / t["m"], where="m"),
)


def declared(*names: str) -> list[Column]:
    """Columns of COLUMNS by their names."""
    by_name = {column.name: column for column in COLUMNS}
    return [by_name[name] for name in names]


def columns_of(op: OpSpec) -> list[Column]:
    """The columns that every table of an op has, in their order."""
    axes = [_count(axis, partial(_size, axis)) for axis in op.axes]
    return [*IDENTITY, *axes, *COLUMNS]


def _size(axis: str, point: "SeenPoint") -> int:
    return point.point.shape[axis]
