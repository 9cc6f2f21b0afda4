"""What is on this machine, and what a study here can and cannot do."""

import importlib.util
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from roofcal.core.devices import DeviceSpec, load_devices
from roofcal.core.jsonl import read_single_record, write_records
from roofcal.core.machine.cores import (
    BUSY_CPU,
    BUSY_HOST,
    allowed_cores,
    busy_share,
    cpu_quota,
    quota_periods,
    throttled_share,
    usable_cores,
)
from roofcal.core.machine.locks import lock_name, try_lock
from roofcal.core.machine.nvml import Gpu, visible_gpus
from roofcal.core.paths import RESULTS, RunFolder, run_folders
from roofcal.core.records import Calibration, Environment
from roofcal.core.units import GB, format_bytes
from roofcal.core.visits.rows import DISTURBED, throttled_text
from roofcal.models.calibrations import cards_like
from roofcal.ops.priors import unlike_other_cards
from roofcal.study.discover import DiscoverError, discover, installed_software, left_out, match_gpu

_LEAST_DISK_BYTES = 200 << 20


def examine(devices_folder: Path, published: Path) -> Iterator[str]:
    """Lines for a person: what a study here can do; processors, software, locks, disk.

    Raises DiscoverError behind the last line where a study here would be refused.
    """
    gpus = visible_gpus()
    specs = load_devices(devices_folder)
    environments: list[Environment] = []
    problem = None
    try:
        environments = discover(devices_folder)
    except DiscoverError as error:
        problem = error
    yield "A study here"
    yield from _study_lines(environments, published, problem)
    yield "Processors"
    for gpu in gpus:
        yield from _gpu_lines(gpu, specs)
    if not gpus:
        yield "  no NVIDIA GPU that this process may use"
    yield from (f"  {sentence}" for sentence in left_out())
    for environment in environments:
        yield f"  {environment.device}: environment {environment.environment_id}"
        spec = specs.get(environment.device)
        run = RunFolder.at(RESULTS / environment.device / environment.environment_id)
        if spec is not None and run.calibration_file.is_file():
            measured = read_single_record(run.calibration_file, Calibration)
            for text in unlike_other_cards(measured, cards_like(spec), spec):
                yield f"    as measured here, {text}"
    yield "Software"
    yield from _software_lines(environments[0] if environments else None)
    yield "Machine"
    yield from _machine_lines()
    yield from _steadiness_lines(environments)
    if problem is not None:
        raise problem


def _study_lines(
    environments: list[Environment], published: Path, problem: DiscoverError | None
) -> Iterator[str]:
    """What it measures and shows, or why it is refused."""
    if problem is not None:
        yield f"  is refused: {problem}"
    for environment in environments:
        if environment.vendor == "cpu":
            yield "  measures this CPU: bf16, fp32, int8 and fp8 products, casts, memory streams"
            yield "  cannot measure GPU kernels: the report shows published ones instead"
        else:
            yield f"  measures {environment.device} with every op of config/sweeps"
    runs = run_folders(published)
    for run in runs:
        yield f"  shows what is published of {run.device} ({run.environment_id})"
    if not runs:
        yield f"  nothing is published under {published} to show"


def _gpu_lines(gpu: Gpu, specs: dict[str, DeviceSpec]) -> Iterator[str]:
    memory = "memory unknown" if gpu.memory_bytes is None else format_bytes(gpu.memory_bytes)
    yield f"  {gpu.name}, {gpu.compute_units} SMs, {memory} ({gpu.uuid})"
    if gpu.mig:
        yield "    a slice of a card: what runs on its other slices changes clock and power unseen"
    spec, why = match_gpu(gpu, specs)
    yield f"    datasheet: {spec.device if spec else why}"
    free = "unknown" if gpu.memory_free_bytes is None else format_bytes(gpu.memory_free_bytes)
    yield f"    free memory {free}, driver {gpu.driver or 'unknown'}"
    yield f"    SM clock {_mhz(gpu.sm_clock_hz)} now, {_mhz(gpu.max_sm_clock_hz)} at most"
    if gpu.process_ids:
        count = len(gpu.process_ids)
        yield f"    {count} other process(es) on it: their work disturbs every number"
    lock = try_lock(gpu.uuid)
    yield f"    lock: {'free' if lock else 'held: a measurement is running on this card'}"
    if lock:
        lock.release()


def _mhz(hertz: float | None) -> str:
    return "unknown" if hertz is None else f"{hertz / 1e6:.0f} MHz"


def _software_lines(environment: Environment | None) -> Iterator[str]:
    """Versions of the environment; what it leaves out on purpose is installed or not needed.

    environment: None where no study can be made: what is installed is listed, without the driver.
    """
    installed: dict[str, str | None] = {"python": platform.python_version()}
    with suppress(DiscoverError):  # torch is missing
        installed |= asdict(installed_software())
    names = ("python", "torch", "triton", "cuda", "cublas", "nccl")
    for name in (*names, *(("driver",) if environment else ())):
        version = getattr(environment, name) if environment else installed.get(name)
        if version is None and environment and environment.vendor == "cpu":
            unused = installed.get(name)
            version = f"{unused}, not used on a CPU" if unused else "not needed on a CPU"
        yield f"  {name}: {version or 'not found'}"
    try:
        metadata.version("kernels")
    except metadata.PackageNotFoundError:
        pass  # the good case
    else:
        yield "  the PyPI package `kernels` shadows ours: pip uninstall kernels"
    for module in ("snakemake", "pandas", "vl_convert", "jinja2"):
        if importlib.util.find_spec(module) is None:
            yield f"  {module}: missing; `make env` installs it"


def _machine_lines() -> Iterator[str]:
    free = shutil.disk_usage(".").free
    short = "; too little for a study" if free < _LEAST_DISK_BYTES else ""
    busy = busy_share() or 0.0
    disturbed = "; their work disturbs every number on a CPU" if busy > BUSY_CPU else ""
    disturbed += ", and on a GPU too" if busy > BUSY_HOST else ""
    cores = f"{allowed_cores()} processor cores, load {os.getloadavg()[0]:.1f}"
    yield f"  {cores}, kept busy by other processes for {busy:.0%} of the time{disturbed}"
    quota = cpu_quota()
    if quota is not None:
        yield f"  the CPU quota of the container is {quota:g} cores: {usable_cores()} measure a CPU"
    yield f"  {free / GB:.1f} GB free in {Path.cwd()}{short}"
    # Snakemake and Triton keep caches below HOME.
    home, missing = Path.home(), []
    for name, cache in {"XDG_CACHE_HOME": ".cache", "TRITON_HOME": ".triton"}.items():
        # A folder can be written, or made where it is not there.
        places = (home / cache, *(home / cache).parents)
        there = next(place for place in places if os.path.lexists(place))
        is_writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
        if not os.environ.get(name) and not is_writable:
            missing.append(f"{name}=FOLDER")
    if missing:
        cure = " and ".join(missing)
        yield f"  no caches can be kept in {home}: `make` keeps them here; without it set {cure}"
    yield f"  locks: sockets {lock_name('<device>')}, listed by `ss -x`"


def _steadiness_lines(environments: list[Environment]) -> Iterator[str]:
    """Whether times of a CPU repeat; that of a GPU is not tried, and a line says so.

    A product on a GPU needs torch and a context, which take longer than all that the doctor does.
    """
    for environment in environments:
        if environment.vendor != "cpu":
            yield (
                f"  not checked: whether times of {environment.device} repeat and its clock holds "
                "under load; the sentinels of a session say so"
            )
            continue
        lock = try_lock("cpu")
        if lock is None:
            yield "  not checked: whether times repeat, because a measurement is running here"
            continue
        periods = quota_periods()
        try:
            drift = product_drift()
        finally:
            lock.release()
        throttled = throttled_share(periods) or 0.0
        if throttled > BUSY_CPU:
            yield f"  not checked: whether times repeat. {throttled_text(throttled)}"
            continue
        moved = f"a small product moved by {100 * drift:.1f} % within a second"
        unsteady = f"; beyond {DISTURBED:.0%} no number of a study can be trusted: stop other work"
        yield f"  {moved}{unsteady if drift > DISTURBED else ''}"
        yield "  not checked: drifts of minutes; the sentinels of a session say so"


def write_environments(devices_folder: Path, results: Path) -> list[Path]:
    """Write results/<device>/<environment_id>/environment.jsonl of what is here, for a cluster.

    Raises OSError when the folder cannot be written, DiscoverError in a job that SLURM gave GPUs
    whose driver does not answer: it would write the environment of the node's CPU.
    """
    gpus = os.environ.get("SLURM_GPUS_ON_NODE", "0")
    if gpus != "0" and not visible_gpus():
        why = "".join(f" ({sentence})" for sentence in left_out())
        raise DiscoverError(
            f"SLURM gave this job {gpus} GPU(s), and no NVIDIA driver answers on "
            f"{os.environ.get('SLURMD_NODENAME', 'this node')}{why}; try `nvidia-smi` "
            "there, or ask for no GPU to measure the CPU"
        )
    paths = []
    for environment in discover(devices_folder):
        folder = results / environment.device / environment.environment_id
        path = RunFolder.at(folder).environment_file
        write_records(path, [environment])
        paths.append(path)
    return paths


_SIZE: Final = 256  # 0.1 to 1 ms: a turn holds hundreds of products
_TURNS: Final = 5
_WARM_UP_S: Final = 0.1  # the threads of the library start, and the clock rises


def product_drift(seconds: float = 1.0) -> float:
    """Slowest over fastest turn of one fp32 product on all cores, minus 1.

    A turn is a fifth of the time, and its time is the median over its products, as that of a
    sentinel in a session is.
    """
    operand = np.random.default_rng(0).standard_normal((_SIZE, _SIZE)).astype(np.float32)
    _median_seconds(operand, _WARM_UP_S)
    medians = [_median_seconds(operand, seconds / _TURNS) for _ in range(_TURNS)]
    return max(medians) / min(medians) - 1


def _median_seconds(operand: np.ndarray, seconds: float) -> float:
    """Median time of a product, of as many as fit into a turn."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        np.matmul(operand, operand)
        times.append(time.perf_counter() - start)
    return median(times)
