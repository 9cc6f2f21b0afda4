"""Probe measurements -> constants of a device with intervals. Never reads a study op.

Only the environment and the points of probe ops are read from a run folder: a fit that has seen the
points it is judged on proves nothing.

The learning curve says how wrong predictions are by the number of probes that were fitted;
docs/method.md says how the probes are drawn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import numpy as np

from roofcal.core.devices import DeviceSpec
from roofcal.core.jsonl import read_single_record
from roofcal.core.paths import RunFolder
from roofcal.core.records import Calibration, Environment
from roofcal.core.visits.rows import (
    drift_texts,
    is_sentinel,
    load_texts,
    session_drift,
    width_texts,
)
from roofcal.fitting.cross_validation import Problem, held_out_log_errors
from roofcal.fitting.intervals import exact
from roofcal.fitting.parallel import parallel_map
from roofcal.fitting.probes import (
    CalibrationError,
    Device,
    FitPart,
    Fitted,
    Probe,
    by_provider_and_recipe,
)
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.constants import current_equations, load_part
from roofcal.ops.predictions import Span, probe_spans
from roofcal.ops.priors import narrowed_errors, priors_of
from roofcal.ops.spec import OpSpec
from roofcal.points.columns import INTERVAL, POINT, VISIT_TIMES, Column
from roofcal.points.reader import RECORDED, Points, read_points, with_intervals

_ROW: Final = Column("measurement", "object", lambda p: p.row)
LEARNING_COLUMNS: Final = (
    *("op", "recipe", "provider", "probes", "repetition", "held_out"),
    *("mape", "median", "p95"),
)
REPETITIONS: Final = 5
HELD_OUT: Final = 10  # at least so many probes test a fit
_STEPS: Final = 6


def calibrate(
    run: Path,
    spec: DeviceSpec | None = None,
    seed: int = 0,
    cards: Sequence[Calibration] = (),
) -> Calibration:
    """Fit every constant that the probes of a run folder allow, op by op.

    Args:
        run: folder with environment.jsonl, plan/ and measurements/.
        spec: the device's datasheet, for the size of its cache and for what other cards say.
        seed: of the bootstrap; equal records and seed give equal numbers.
        cards: what the fits start from and are drawn to, see roofcal.ops.priors. The card of the
            run itself in the same environment is left out: its probes would count twice.

    Raises:
        CalibrationError: for a run without any probe, or with too few of an op.
        RecordsError: for a bad file.
    """
    environment = read_single_record(RunFolder.at(run).environment_file, Environment)
    device, generator = _measured_device(environment, spec), np.random.default_rng(seed)
    units = exact(float(environment.compute_units), "1", "environment record")
    fitted = Fitted(constants={"compute_units": units})
    itself = (environment.device, environment.environment_id)
    others = [card for card in cards if (card.device, card.environment_id) != itself]
    spans: dict[str, Span] = {}
    disturbances: list[str] = []
    count = 0
    for op, part, points in _fits_with_points(run):
        probes = probes_of(points)
        device = replace(device, constants=fitted.constants, priors={})
        if spec is not None and op.calibrates is not None:
            by_op = priors_of(others, spec, device.stream_bytes_per_s)
            device = replace(device, priors=by_op.get(op.calibrates, {}))
        own = part.fit(probes, device, generator)
        fitted.constants.update(own.constants)
        fitted.errors.update(own.errors)
        if op.calibrates is not None:
            spans |= probe_spans(op, (probe.point for probe in probes))
        disturbances += disturbances_of(points, op.name, environment)
        disturbances += width_texts(op.name, _median_half_width(probes))
        count += len(probes)
    errors = narrowed_errors(fitted.errors, others, spec) if spec else fitted.errors
    if not count:
        raise CalibrationError(f"{run}: no probe was measured; run `snakemake --cores all` there")
    return Calibration(
        device=environment.device,
        environment_id=environment.environment_id,
        constants=fitted.constants,
        probe_errors=errors,
        probe_spans={name: span for name, span in spans.items() if name in errors},
        equations=current_equations(),
        disturbances=tuple(dict.fromkeys(disturbances)),
        probe_points=count,
        seed=seed,
    )


def cross_validated_ops(
    run: Path, spec: DeviceSpec | None
) -> Iterator[tuple[OpSpec, type[Problem], Device, list[Probe]]]:
    """Every probe op whose fit is a roofcal.fitting.cross_validation.Problem, with its probes.

    The device of an op has the constants of those ops before it that are fitted in one step, as
    streams are. Raises as `calibrate`.
    """
    environment = read_single_record(RunFolder.at(run).environment_file, Environment)
    device = _measured_device(environment, spec)
    for op, part, points in _fits_with_points(run):
        probes, kind = probes_of(points), getattr(part, "PROBLEM", None)
        if kind is not None:
            yield op, kind, device, probes
        else:
            constants = part.fit(probes, device, np.random.default_rng(0)).constants
            device = replace(device, constants={**device.constants, **constants})


def probes_of_ops(run: RunFolder) -> Iterator[tuple[OpSpec, list[Probe]]]:
    """(op that was calibrated, its probes that were timed) of a run that has probes of it."""
    for op in OPS:
        if op.calibrates is not None and run.plan_file(op.name).is_file():
            yield BY_NAME[op.calibrates], points_timed(run, op.name)


def points_timed(run: RunFolder, op: str) -> list[Probe]:
    """The points of an op that were timed, without sentinels, in the order of their records."""
    return probes_of(read_points(run, op, [_ROW]))


def _median_half_width(probes: Sequence[Probe]) -> float:
    """Median over probes of half the 95 % interval over the median; 0 without any.

    Times by the host's clock are left out where there are others: other work on the host changes a
    launch from 17 to 25 us.
    """
    by_device = [probe for probe in probes if probe.point.protocol.method != "wall"]
    intervals = [probe.latency for probe in by_device or probes]
    halves = [(i.ci95_high - i.ci95_low) / 2 / i.median for i in intervals]
    return float(np.median(halves)) if halves else 0.0


def _fits_with_points(run: Path) -> Iterator[tuple[OpSpec, FitPart, Points]]:
    """Every probe op that has a fit, in the order of OPS."""
    for op in OPS:
        part = load_part(op, "fit") if op.role == "probe" else None
        if part is not None:
            yield op, cast(FitPart, part), read_points(RunFolder.at(run), op.name, [_ROW])


def _measured_device(environment: Environment, spec: DeviceSpec | None) -> Device:
    """The device, with the size of its cache as the machine says, else as the datasheet does."""
    cache_bytes = environment.last_level_cache_bytes or (spec.l2_bytes if spec else None)
    return Device(environment=environment, cache_bytes=cache_bytes)


def probes_of(points: Points) -> list[Probe]:
    """The points of a probe op that were timed, in the order of their records.

    Sentinels are left out: they have the shapes of study points, on which fits are judged. The
    interval of a probe that is also a sentinel includes its repetitions.
    """
    table = points.table.sort_values(RECORDED)
    is_probe = table[VISIT_TIMES].map(bool) & ~table[POINT].map(is_sentinel).astype(bool)
    timed = with_intervals(table[is_probe], points.sessions, of_sentinels=True)
    columns = (timed[name] for name in (POINT, _ROW.name, INTERVAL))
    return [
        Probe(point=point, measurement=row, latency=interval)
        for point, row, interval in zip(*columns, strict=True)
    ]


def disturbances_of(points: Points, op: str, environment: Environment) -> list[str]:
    """What disturbed the sessions of a probe op, by its sentinels and the load of the machine."""
    is_repeated = points.table[POINT].map(is_sentinel).astype(bool)
    times: dict[str, dict[str, list[float]]] = {}  # session -> point id -> medians of its visits
    for point_id, visits in points.table.loc[is_repeated, VISIT_TIMES].items():
        for visit in visits:
            of_session = times.setdefault(visit.session_id, {})
            of_session.setdefault(str(point_id), []).append(visit.median)
    drift = max((session_drift(sentinels.values()) for sentinels in times.values()), default=0.0)
    load = load_texts(points.sessions, is_cpu=environment.vendor == "cpu")
    return [*drift_texts(op, drift), *load]


def learning_csv(
    run: Path, spec: DeviceSpec | None = None, *, repetitions: int = REPETITIONS, seed: int = 0
) -> str:
    """The learning curves of a run folder as CSV with the header LEARNING_COLUMNS.

    Errors are fractions. A recipe is left out if it has fewer than ten probes more than its fit
    needs. spec: the device's datasheet, for the size of its cache. Equal records and seed give
    equal text. Raises RecordsError for bad files.
    """
    subjects = [
        (f"{op.folder},{recipe},{provider}", kind.of(members, device))
        for op, kind, device, probes in cross_validated_ops(run, spec)
        for provider, recipe, members in by_provider_and_recipe(probes)
    ]

    def curve(subject: tuple[str, Problem]) -> list[str]:
        labels, problem = subject
        return [f"{labels},{row}" for row in _curve_rows(problem, repetitions, seed)]

    curves = parallel_map(curve, subjects)
    return "\n".join([",".join(LEARNING_COLUMNS), *(row for rows in curves for row in rows)]) + "\n"


def learning_sizes(least: int, count: int) -> list[int]:
    """Numbers of probes to fit on: from `least` to all of `count` but ten, geometric; [] if none.

    (12, 120) -> [12, 19, 29, 45, 71, 110]
    """
    most = count - HELD_OUT
    if most < least:
        return []
    return sorted({round(float(size)) for size in np.geomspace(least, most, _STEPS)})


def _curve_rows(problem: Problem, repetitions: int, seed: int) -> Iterator[str]:
    """One row per repetition and number of probes, without the labels of op and recipe."""
    count = len(problem.probes)
    draws = [
        (repetition, size, np.random.default_rng([seed, repetition]).permutation(count)[:size])
        for repetition in range(repetitions)
        for size in learning_sizes(problem.least_probes, count)
    ]
    if not draws:
        return
    subsets = np.zeros((len(draws), count))
    for subset, (_, _, drawn) in zip(subsets, draws, strict=True):
        subset[drawn] = 1.0
    log_errors = held_out_log_errors(problem, subsets)
    for (repetition, size, _), subset, logs in zip(draws, subsets, log_errors, strict=True):
        error = np.abs(np.expm1(logs[subset == 0]))
        figures = (error.mean(), np.median(error), np.percentile(error, 95))
        numbers = (size, repetition, len(error), *(f"{figure:.4g}" for figure in figures))
        yield ",".join(map(str, numbers))
