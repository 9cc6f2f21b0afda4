"""The tables of one run that several sections use; each is computed once, on first use."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from roofcal.claims import Entry
from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import short_names
from roofcal.core.records import Ceiling, Session
from roofcal.fitting.parallel import parallel_map
from roofcal.judge.errors import judged_errors
from roofcal.ops import BY_NAME
from roofcal.points.roofs import constants_of
from roofcal.points.run import Run
from roofcal.report.data import panel_factors, quality
from roofcal.report.data.cards import ratios_of_cards
from roofcal.report.data.claims import Row, judge
from roofcal.report.data.comparisons import FastestProduct, fastest_products, speedups
from roofcal.report.data.prediction_errors import error_by_regime, model_labels
from roofcal.report.data.tidy import ok_rows, with_shape


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """One run and the tables made of it.

    frames        tidy frame by op that was planned, its times also on the scale of the panel
    peers         all runs of the report, publications among them
    calibrations  environment -> calibration file of the same device, as commands name it
    panel         what sessions and cards add to the times of the sentinels that they share
    claims        verdicts on the claims of the ledger, empty without a ledger
    """

    run: Run
    spec: DeviceSpec | None
    frames: Mapping[str, pd.DataFrame]
    sessions: Mapping[str, Sequence[Session]]
    peers: Sequence[Run] = ()
    calibrations: Mapping[str, str] = field(default_factory=dict)
    claims: Sequence[Row] = ()
    panel: Sequence[panel_factors.PanelFit] = ()

    @property
    def device(self) -> str:
        """Device id."""
        return self.run.environment.device

    @property
    def device_name(self) -> str:
        """The name that the driver reports."""
        return self.run.environment.device_name

    @property
    def key(self) -> str:
        """<device>/<environment_id>, its folder among all runs or publications."""
        return self.run.files.name

    @property
    def constants(self) -> Mapping[str, Ceiling]:
        """The calibrated constants."""
        return constants_of(self.run.calibration)

    @property
    def environment_id(self) -> str:
        """Environment id."""
        return self.run.environment.environment_id

    @property
    def environment_name(self) -> str:
        """Short name of the environment, unique among those of the device in the report."""
        ids = [peer.environment.environment_id for peer in self._same_device]
        return short_names([*ids, self.environment_id])[self.environment_id]

    @property
    def is_earlier(self) -> bool:
        """Whether the report has a newer environment of the device: see age_key of a run.

        What was measured here is not earlier than what others published.
        """
        origins = [self.run.origin] if self.run.origin == "measured" else ["measured", "published"]
        return any(
            peer.origin in origins
            and peer.age_key > self.run.age_key
            and peer.environment.environment_id != self.environment_id
            for peer in self._same_device
        )

    @property
    def _same_device(self) -> list[Run]:
        return [peer for peer in self.peers if peer.environment.device == self.device]

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
    def all_sessions(self) -> list[Session]:
        """Sessions of all ops."""
        return [session for sessions in self.sessions.values() for session in sessions]

    @property
    def cache_bytes(self) -> float | None:
        """Last-level cache: as the driver says, else as the datasheet says."""
        reported = self.run.environment.last_level_cache_bytes
        return reported or (self.spec.l2_bytes if self.spec else None)

    @property
    def studies(self) -> list[str]:
        """Study ops with at least one point."""
        return [op for op, f in self.frames.items() if BY_NAME[op].role == "study" and len(f)]

    @property
    def predicted_ops(self) -> list[str]:
        """Ops whose predictions were judged."""
        return list(dict.fromkeys(self.errors["op"])) if len(self.errors) else []

    @cached_property
    def errors(self) -> pd.DataFrame:
        """error_by_regime of all study ops."""
        return _concatenated([error_by_regime(frame) for frame in self.frames.values()])

    @cached_property
    def judged(self) -> pd.DataFrame:
        """judged_errors of the seeds beside the run."""
        return judged_errors(self.run, self.spec)

    @cached_property
    def cards(self) -> pd.DataFrame:
        """How much longer work takes on further cards of this model than on the published one."""
        return ratios_of_cards(self.run, self.frames, self.sessions, self.peers)

    @cached_property
    def fastest(self) -> dict[str, FastestProduct]:
        """Recipe -> its fastest product, the fastest recipe first."""
        return fastest_products(self.frames)

    @cached_property
    def labels(self) -> dict[str, str]:
        """What people read for models with the constants of other environments."""
        return model_labels(self.environment_id, self.errors)

    @cached_property
    def violations(self) -> pd.DataFrame:
        """Violations of all ops."""
        return self._of_all_ops(lambda frame: quality.violations(frame, self.cache_bytes))

    @cached_property
    def missing(self) -> pd.DataFrame:
        """Points without a result of all ops."""
        return self._of_all_ops(quality.not_ok)

    @cached_property
    def points_with_states(self) -> pd.DataFrame:
        """Points of all ops with several states, widest first."""
        every = self._of_all_ops(quality.points_with_states)
        if not self.frames:
            return every
        return every.sort_values("spread", ascending=False, kind="stable", ignore_index=True)

    def _of_all_ops(self, table_of: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
        """A table of each op, one below the other, the shape of each point in one column."""
        return _concatenated([with_shape(table_of(frame)) for frame in self.frames.values()])

    @cached_property
    def speedups(self) -> dict[str, pd.DataFrame]:
        """Speed-ups by op, for ops with a baseline recipe and a plan."""
        baselines = {op: BY_NAME[op].baseline_recipe for op in self.frames}
        return {
            op: speedups(self.frames[op], baseline)
            for op, baseline in baselines.items()
            if baseline is not None and len(self.frames[op])
        }

    @cached_property
    def quality(self) -> pd.DataFrame:
        """One row per op on how well it was measured."""
        rows = [
            {"op": op} | quality.quality_row(f, self.sessions[op]) for op, f in self.frames.items()
        ]
        return pd.DataFrame(rows)


def analyse(
    run: Run,
    spec: DeviceSpec | None,
    *,
    peers: Sequence[Run] = (),
    calibrations: Mapping[str, str] | None = None,
    claims: Iterable[Entry] = (),
) -> Analysis:
    """Read the ops of a run, on all cores, and judge the claims on it.

    claims: entries of the ledger; the other arguments as in Analysis. Raises RecordsError and
    ReportError for a bad file of the run.
    """
    points = parallel_map(lambda op: run.points(op, spec), run.ops)
    tables = {op: of_op.table for op, of_op in zip(run.ops, points, strict=True)}
    sessions = {op: of_op.sessions for op, of_op in zip(run.ops, points, strict=True)}
    panel = panel_factors.panel_fits(panel_factors.panel_readings(tables, sessions))
    factors = panel_factors.panel_factors(panel)
    frames = {op: panel_factors.on_panel_scale(table, factors) for op, table in tables.items()}
    return Analysis(
        run=run,
        spec=spec,
        frames=frames,
        sessions=sessions,
        peers=peers,
        calibrations=calibrations or {},
        claims=judge(claims, run, spec, frames),
        panel=panel,
    )


def _concatenated(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One frame of several; the columns of the first if all are empty."""
    filled = [part for part in parts if not part.empty] or parts[:1]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()
