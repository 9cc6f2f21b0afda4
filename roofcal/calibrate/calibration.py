"""One run's probes -> its Calibration."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from roofcal.calibrate.probe_records import read_environment, read_probes
from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration, Ceiling, Environment
from roofcal.fitting.bootstrap import ceiling, interval
from roofcal.fitting.probes import CalibrationError, Probe
from roofcal.ops.cast import model as cast_model
from roofcal.ops.cast.fit import CastFit, by_pair, fit_casts
from roofcal.ops.gemm.fit import fit_recipe
from roofcal.ops.gemm.model import FAMILIES
from roofcal.ops.gemm.sustained import sustained_constants
from roofcal.ops.mixed_gemm import fit as narrow_weights
from roofcal.ops.mixed_gemm import fitted as narrow_fitted
from roofcal.ops.mixed_gemm import model as narrow_model
from roofcal.ops.probe_copy.fit import bandwidth_constants
from roofcal.ops.probe_launch.fit import launch_constants
from roofcal.ops.probe_link.fit import link_constants


def calibrate(run: Path, spec: DeviceSpec | None = None, seed: int = 0) -> Calibration:
    """Fit every constant that the probes of a run folder allow.

    spec: the device's datasheet, for the size of its cache alone; no constant is taken from it.
    seed: of the bootstrap; equal records and seed give equal numbers.
    Raises CalibrationError without any probe, RecordsError for bad files.
    """
    environment = read_environment(run)
    generator = np.random.default_rng(seed)
    streams, launches = read_probes(run, "probe_copy"), read_probes(run, "probe_launch")
    products, casts = read_probes(run, "probe_math"), read_probes(run, "probe_cast")
    mixed, links = read_probes(run, "probe_mixed_gemm"), read_probes(run, "probe_link")
    every = streams + launches + products + casts + mixed + links
    if not every:
        raise CalibrationError(f"{run}: no probe was measured; run `snakemake --cores all` there")
    constants = {"compute_units": _counted(environment)}
    constants |= dict(launch_constants(launches))
    cache = cache_bytes(environment, spec)
    constants |= dict(bandwidth_constants(streams, cache, generator))
    if cache:
        constants["cache_bytes"] = ceiling(cache, cache, cache, "B", "environment or datasheet")
    stream = constants.get("dram_read_bytes_per_s")
    errors = {}
    for provider, recipe, members in by_pair(products):
        fit = fit_recipe(
            recipe,
            members,
            environment.compute_units,
            stream.value if stream else None,
            generator,
            families=families_of(environment),
        )
        name = f"gemm.{provider}.{recipe}"
        constants |= dict(_named(name, members, fit.family, fit.constants, generator))
        errors[name] = fit.errors
    for name, cast in fit_casts(casts, cache or 0.0, generator):
        constants |= dict(_named_cast(name, cast))
        errors[f"cast.{name}"] = cast.errors
    machine = narrow_weights.Machine.of(environment, stream.value if stream else None)
    for name, narrow in narrow_weights.fit_mixed(mixed, machine, generator):
        constants |= dict(_named_narrow(name, narrow))
        errors[f"{narrow_fitted.OP}.{name}"] = narrow.errors
    constants |= dict(link_constants(links, generator))
    return Calibration(
        device=environment.device,
        environment_id=environment.environment_id,
        constants=constants,
        probe_errors=errors,
        probe_points=len(every),
        seed=seed,
    )


def families_of(environment: Environment) -> list[str]:
    """Families of tiles to try: none on a CPU, where every core works on any part of a product."""
    tiled = environment.vendor != "cpu"
    return [name for name, family in FAMILIES.items() if bool(family.tiles) == tiled]


def _counted(environment: Environment) -> Ceiling:
    units = float(environment.compute_units)
    return ceiling(units, units, units, "1", "environment record")


def cache_bytes(environment: Environment, spec: DeviceSpec | None) -> float | None:
    """Size of the last-level cache: as the machine says, else as the datasheet does."""
    return environment.last_level_cache_bytes or (spec.l2_bytes if spec else None)


def _named_cast(name: str, fit: CastFit) -> Iterator[tuple[str, Ceiling]]:
    """The constants of a provider's recipe under `cast.<provider>.<recipe>.`."""
    code = float(list(cast_model.FAMILIES).index(fit.family))
    said = f"cross-validation: {fit.family}"
    yield f"cast.{name}.cast_family", ceiling(code, code, code, "code", said)
    for constant, value in fit.constants.items():
        yield f"cast.{name}.{constant}", value


def _named_narrow(name: str, fit: narrow_weights.MixedFit) -> Iterator[tuple[str, Ceiling]]:
    """The constants of a provider's recipe under `mixed_gemm.<provider>.<recipe>.`."""
    prefix, code = f"{narrow_fitted.OP}.{name}.", float(narrow_model.FAMILIES[fit.family].code)
    said = f"cross-validation: {fit.family}"
    yield prefix + narrow_fitted.FAMILY, ceiling(code, code, code, "code", said)
    for constant, value in fit.constants.items():
        yield prefix + constant, value


def _named(
    prefix: str,
    probes: Sequence[Probe],
    family: str,
    constants: Mapping[str, Ceiling],
    generator: np.random.Generator,
) -> Iterator[tuple[str, Ceiling]]:
    """The constants under `gemm.<provider>.<recipe>.`, the rate reached, clock and power."""
    code = float(FAMILIES[family].code)
    yield f"{prefix}.tile_family", ceiling(code, code, code, "code", f"cross-validation: {family}")
    for name, constant in constants.items():
        yield f"{prefix}.{name}", constant
    yield f"{prefix}.ceiling_flops_per_s", _ceiling_rate(probes, generator)
    for name, constant in sustained_constants(probes, generator):
        yield f"{prefix}.{name}", constant


def _ceiling_rate(probes: Sequence[Probe], generator: np.random.Generator) -> Ceiling:
    """Highest settled rate over the probes.

    Its interval comes from resampling them: what the value could have been with other shapes.
    """
    flops = np.array([2.0 * p.shape["m"] * p.shape["n"] * p.shape["k"] for p in probes])
    rate = flops / np.array([p.latency.median for p in probes])
    best = probes[int(rate.argmax())]
    spread = flops[rate.argmax()] / np.array([best.latency.ci95_high, best.latency.ci95_low])
    low, _ = interval(len(rate), lambda index: np.asarray(rate[index].max()), generator)
    evidence = f"probe_math, fastest of {len(rate)}: {dict(best.shape)}"
    return ceiling(rate.max(), min(float(low), spread[0]), spread[1], "flop/s", evidence)
