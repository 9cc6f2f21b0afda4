"""All that the report says of one run, computed once: frames by op, and the tables made of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from roofcal.claims.ledgers import Entry
from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Session
from roofcal.ops import BY_NAME
from roofcal.report.data.audit import not_ok, violations
from roofcal.report.data.claims import Verdict, judge
from roofcal.report.data.comparisons import method_panel, speedups
from roofcal.report.data.constants import constants_table
from roofcal.report.data.loading import Run
from roofcal.report.data.own_numbers import Known
from roofcal.report.data.prediction_errors import error_by_regime
from roofcal.report.data.quality import quality_row
from roofcal.report.data.tidy import frame_of, ok_rows
from roofcal.report.sections.breakeven.table import read_map
from roofcal.report.sections.health.comparison import Health, health_of
from roofcal.report.sections.learning.table import read_curves
from roofcal.report.sections.llm.table import read_estimates
from roofcal.report.sections.moved.tables import read_moved
from roofcal.report.sections.transfer.table import labels_of, transfers

_BY: Final = " \N{MULTIPLICATION SIGN} "


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One run in tables.

    frames      tidy frame by op; ops without a plan are not in it
    errors      error_by_regime of all study ops
    violations  of all ops, with the sizes of each point in one column `shape`; as are `missing`
    speedups    by op, for ops with a baseline recipe
    panel       method_panel of the op that has one, empty where none has
    quality     one row per op
    constants   empty without a calibration
    breakeven   the break-even map, empty without one
    learning    the learning curves, empty without any
    llm         estimates of language models, empty without any
    transfers   own calibration against those of other environments, by op; empty without any
    moved       what `compare` wrote of the environment before this one, None where nothing did
    others      files of those calibrations by environment, as commands name them
    health      what publications of the same device say of it
    claims      verdicts on the claims of the ledger, empty where none was given
    """

    run: Run
    spec: DeviceSpec | None
    frames: Mapping[str, pd.DataFrame]
    sessions: Mapping[str, Sequence[Session]]
    errors: pd.DataFrame
    violations: pd.DataFrame
    speedups: Mapping[str, pd.DataFrame]
    panel: pd.DataFrame
    missing: pd.DataFrame
    quality: pd.DataFrame
    constants: pd.DataFrame
    breakeven: pd.DataFrame
    learning: pd.DataFrame
    llm: pd.DataFrame
    transfers: pd.DataFrame
    health: Health
    moved: Mapping[str, Any] | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    claims: Sequence[Verdict] = ()

    @property
    def device(self) -> str:
        """Device id."""
        return self.run.environment.device

    @property
    def environment_id(self) -> str:
        """Environment id."""
        return self.run.environment.environment_id

    @property
    def labels(self) -> dict[str, str]:
        """What people read for models with the constants of other environments."""
        return labels_of(self.environment_id, self.errors["model"]) if len(self.errors) else {}

    @property
    def points(self) -> int:
        """Points planned."""
        return sum(len(frame) for frame in self.frames.values())

    @property
    def ok(self) -> int:
        """Points with a result."""
        return sum(int((frame["status"] == "ok").sum()) for frame in self.frames.values())

    @property
    def timed(self) -> int:
        """Points with a time: those that are ok and were not measured for their accuracy alone."""
        return sum(len(ok_rows(frame)) for frame in self.frames.values())

    @property
    def every_session(self) -> list[Session]:
        """Sessions of all ops."""
        return [session for of_op in self.sessions.values() for session in of_op]

    @property
    def cache_bytes(self) -> float | None:
        """Last-level cache: as the driver says, else as the datasheet says."""
        said = self.run.environment.last_level_cache_bytes
        return said or (self.spec.l2_bytes if self.spec else None)


def analyse(
    run: Run,
    spec: DeviceSpec | None,
    others: Mapping[str, str] | None = None,
    claims: Iterable[Entry] = (),
    peers: Sequence[Run] = (),
) -> Analysis:
    """Read a run op by op and compute every table; peers: publications to hold it against.

    Raises RecordsError, ReportError for bad files.
    """
    frames: dict[str, pd.DataFrame] = {}
    sessions: dict[str, tuple[Session, ...]] = {}
    for op in run.ops:
        records = run.read(op)
        sessions[op] = records.sessions
        frames[op] = frame_of(records, run.calibration, spec)
        del records  # its samples: the next op's come into their place
    cache = run.environment.last_level_cache_bytes or (spec.l2_bytes if spec else None)
    device = run.environment.device
    known = Known(device=device, frame=frames.get, calibration=run.calibration, spec=spec)
    return Analysis(
        run=run,
        spec=spec,
        frames=frames,
        sessions=sessions,
        errors=_joined([error_by_regime(frame) for frame in frames.values()]),
        violations=_joined([with_shape(violations(f, cache)) for f in frames.values()]),
        speedups=dict(_speedups(frames)),
        panel=_panel(frames),
        missing=_joined([with_shape(not_ok(frame)) for frame in frames.values()]),
        quality=_quality(frames, sessions),
        constants=constants_table(run.calibration, spec) if run.calibration else pd.DataFrame(),
        breakeven=read_map(run.derived),
        learning=read_curves(run.derived),
        llm=read_estimates(run.derived),
        transfers=_joined([transfers(frame) for frame in frames.values()]),
        health=health_of(run, frames, peers),
        moved=read_moved(run.derived),
        others=others or {},
        claims=judge(claims, known),
    )


def _speedups(frames: Mapping[str, pd.DataFrame]) -> list[tuple[str, pd.DataFrame]]:
    found = []
    for op, frame in frames.items():
        baseline = BY_NAME[op].baseline_recipe
        if baseline is not None and not frame.empty:
            found.append((op, speedups(frame, baseline)))
    return found


def _panel(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    panels = [method_panel(frame) for frame in frames.values() if not frame.empty]
    return max(panels, key=len, default=pd.DataFrame())


def _quality(
    frames: Mapping[str, pd.DataFrame], sessions: Mapping[str, Sequence[Session]]
) -> pd.DataFrame:
    rows = [{"op": op} | quality_row(frame, sessions[op]) for op, frame in frames.items()]
    return pd.DataFrame(rows)


def with_shape(frame: pd.DataFrame) -> pd.DataFrame:
    """The axes of an op, whatever they are, as one column `shape`: '16 x 3,584 x 8,192'."""
    names = list(frame.columns)
    last = "world_size" if "world_size" in names else "method"
    axes = names[names.index("recipe") + 1 : names.index(last)]
    shapes = [_BY.join(f"{size:,}" for size in sizes) for sizes in frame[axes].to_numpy()]
    kept = frame.drop(columns=axes)
    kept.insert(
        names.index("recipe") + 1, "shape", pd.Series(shapes, index=kept.index, dtype=object)
    )
    return kept


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One frame of several; the columns of the first where all are empty."""
    full = [part for part in parts if not part.empty]
    if full:
        return pd.concat(full, ignore_index=True)
    return parts[0] if parts else pd.DataFrame()
