"""Which processors are here, and the software under them, without importing torch (fast)."""

import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Final

from roofcal.core.devices import DeviceSpec, load_devices, match_device
from roofcal.core.machine.cores import cpu_quota, usable_cores
from roofcal.core.machine.nvml import Gpu, survey_gpus, visible_gpus
from roofcal.core.records import Environment
from roofcal.core.units import GIB

# CUDA's major version -> the first driver that runs it (CUDA Toolkit Release Notes, "CUDA Toolkit
# and Minimum Required Driver Version for CUDA Minor Version Compatibility"), and what to give to
# `make env` for a build of torch for it.
_FIRST_DRIVER: Final = {12: "525", 13: "580"}
_BUILDS: Final = {12: "TORCH=cuda12", 13: "TORCH=cuda"}
_OR_CPU: Final = "or measure the CPU: CUDA_VISIBLE_DEVICES= make study"

_AMD: Final = "there is an AMD GPU, which roofcal cannot measure yet (only its datasheet)"


class DiscoverError(ValueError):
    """Why no study can be made here; the message says what to do."""


def discover(devices_folder: Path) -> list[Environment]:
    """One Environment per kind of GPU of this machine, or the CPU's where there is no GPU.

    GPUs that do not answer, and those of other jobs, are left out; `left_out` names them. Raises
    DiscoverError where GPUs of ours are here and none answers, where torch is missing or cannot use
    them, and elsewhere than on Linux; ConfigError for a bad datasheet.
    """
    if sys.platform != "linux":
        raise DiscoverError(
            f"roofcal measures on Linux alone, and this is {sys.platform}; what asks publications "
            "(predict, advise, llm) works here"
        )
    gpus = visible_gpus()
    if not gpus:
        if silent := survey_gpus().silent:
            raise DiscoverError(f"{'; '.join(silent)}; no GPU is left to measure; {_OR_CPU}")
        return [_cpu_environment()]
    software = installed_software()
    _check_torch_build(gpus[0], software)
    specs = load_devices(devices_folder)
    same = ("compute_units", "memory_clock_hz", "memory_bus_bits", "memory_bytes", "power_limit_w")
    environments = [
        Environment(
            device=spec.device if (spec := match_gpu(gpu, specs)[0]) else slug(gpu.name),
            vendor="nvidia",
            device_name=gpu.name,
            python=platform.python_version(),
            **{name: getattr(gpu, name) for name in (*same, "ecc", "mig", "driver")},
            **asdict(software),
        )
        for gpu in gpus
    ]
    return list({e.environment_id: e for e in environments}.values())


def left_out() -> list[str]:
    """A sentence on each GPU of this machine that a study does not measure, and why."""
    survey = survey_gpus()
    sentences = [*survey.silent, *survey.forbidden, *survey.hiding]
    if not survey.visible and not sentences and Path("/dev/kfd").exists():
        sentences.append(_AMD)
    return sentences


def _check_torch_build(gpu: Gpu, software: "Software") -> None:
    """Raise DiscoverError where torch lacks CUDA, or has a newer CUDA than the driver runs."""
    needs = int(software.cuda.partition(".")[0]) if software.cuda else None
    if needs is not None and (gpu.cuda is None or gpu.cuda[0] >= needs):
        return  # torch itself finds out what a driver runs that does not say it
    runs = gpu.cuda[0] if gpu.cuda else max(_BUILDS)
    newest = min(runs, max(_BUILDS))
    ways = []
    if newest in _BUILDS:
        ways.append(f"`make env {_BUILDS[newest]}` installs a build for CUDA {newest}")
    if needs is not None or not ways:
        first_driver = _FIRST_DRIVER.get(needs or min(_FIRST_DRIVER))
        other = f"driver {first_driver} or newer" if first_driver else "a newer driver"
        ways.append(f"install {other}")
    problem = f"is built without CUDA and cannot use the {gpu.name} here"
    if needs is not None:
        driver = f"driver {gpu.driver}" if gpu.driver else "the driver"
        problem = f"needs CUDA {needs}, and {driver} runs CUDA {runs} at most"
    raise DiscoverError(f"torch {software.torch} {problem}: {', or '.join(ways)}; {_OR_CPU}")


def check_environment(environment: Environment, devices_folder: Path) -> None:
    """Raise DiscoverError, naming what differs, unless this machine has this environment.

    Numbers taken under another driver or torch would be filed under the wrong name.
    """
    here = discover(devices_folder)
    if environment.environment_id in {other.environment_id for other in here}:
        return
    same = [other for other in here if other.device == environment.device]
    if not same:
        devices = ", ".join(other.device for other in here)
        raise DiscoverError(f"the plan is for {environment.device}; here is {devices}")
    pairs = zip(asdict(environment).items(), asdict(same[0]).values(), strict=True)
    changes = [f"{name} {was} -> {now}" for (name, was), now in pairs if was != now]
    raise DiscoverError(
        f"the plan is for another environment of {environment.device} ({', '.join(changes)}); "
        "run snakemake again: it plans for the environment it finds"
    )


def match_gpu(gpu: Gpu, specs: Mapping[str, DeviceSpec]) -> tuple[DeviceSpec | None, str]:
    """The datasheet of a card, or why it has none, as match_device returns them."""
    names = ("name", "compute_units", "memory_clock_hz", "memory_bus_bits")
    return match_device(specs, **{name: getattr(gpu, name) for name in names})


def slug(name: str) -> str:
    """A device name as a folder name: 'AMD EPYC 9B14 (R)' -> 'amd-epyc-9b14'."""
    plain = re.sub(r"\((r|tm)\)", " ", name.lower())
    return "-".join(re.findall(r"[a-z0-9]+[a-z0-9.]*", plain)) or "unnamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Versions of what is installed under a study; None where something is not."""

    torch: str
    cuda: str | None
    triton: str | None
    cublas: str | None
    nccl: str | None


def installed_software() -> Software:
    """Versions by the metadata of installed packages; raises DiscoverError without torch."""
    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise DiscoverError("torch is not installed in this environment; `make env` installs it")
    # Its version with the suffix of its build, and its CUDA: from torch/version.py, not imported.
    text = (Path(spec.origin).parent / "version.py").read_text()
    version = re.search(r"^__version__\s*=\s*'([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda\b.*=\s*'([^']+)'", text, re.MULTILINE)
    return Software(
        torch=version.group(1) if version else metadata.version("torch"),
        cuda=cuda.group(1) if cuda else None,
        triton=_version("triton"),
        cublas=_version("nvidia-cublas", "nvidia-cublas-cu12"),
        nccl=_version("nvidia-nccl-cu13", "nvidia-nccl-cu12"),
    )


def _cpu_environment() -> Environment:
    """The environment of this CPU. Triton and CUDA are left out: no kernel of theirs runs on it."""
    name, threads = cpu_name(), usable_cores()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Environment(
        device=f"cpu-{slug(name)}-{threads}t",
        vendor="cpu",
        device_name=name,
        compute_units=threads,
        memory_bytes=round(memory / GIB) * GIB,  # the kernel's own share differs from boot to boot
        last_level_cache_bytes=last_level_cache_bytes(Path("/sys/devices/system/cpu/cpu0/cache")),
        torch=installed_software().torch,
        python=platform.python_version(),
        threads=threads,
        cpu_quota_cores=cpu_quota(),
    )


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model name of the first processor, else the machine's architecture."""
    if cpuinfo.is_file():
        model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
        if model:
            return model.group(1).strip()
    return platform.machine()


def last_level_cache_bytes(folder: Path) -> int | None:
    """Size of the largest cache Linux lists for a processor, None where it lists none."""
    sizes = [path.read_text().strip() for path in sorted(folder.glob("index*/size"))]
    units = {"K": 1 << 10, "M": 1 << 20}
    counts = [int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units]
    return max(counts, default=None)


def _version(*distributions: str) -> str | None:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None
