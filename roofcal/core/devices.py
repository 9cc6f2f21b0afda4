"""config/devices/*.yaml -> DeviceSpec: a GPU in SI, and which of them a card is.

A card is matched by exact identity: name, number of compute units, and memory bandwidth as its
driver's clock and bus width give it. The driver's clock is not the rate of transfer:
- NVML and CUDA report half the rate, so x 2, for HBM and for GDDR alike (RTX 4090: 10501 MHz for
  21 Gbit/s per pin). Databases of GPUs list GDDR's command clock (1313 MHz there), which does not
  belong into memory_clock_mhz.
- HIP on gfx942 and gfx950 reports the command clock of HBM3, so x 4 (MI300X: 1300 MHz for
  5.2 Gbit/s).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from roofcal.core.units import GB
from roofcal.core.wave_device import WaveDevice, WaveSection
from roofcal.core.yaml_files import (
    ConfigError,
    Count,
    Number,
    Source,
    Strict,
    Text,
    citations,
    read_sourced,
    si_fields,
)

_TRANSFERS_PER_CLOCK: Final = {"nvidia": 2, "amd": 4}
_TOLERANCE: Final = 0.06  # datasheets round, drivers differ by a disabled channel (7680, 8192 bit)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One device as its vendor describes it, in SI; None for what the vendor does not print.

    names             the names that torch.cuda.get_device_name() may print
    compute_units     SMs (NVIDIA) or CUs (AMD)
    peak_flops_per_s  dense rates by math dtype: bf16 fp16 fp8 int8 fp4 fp32 tf32 fp64
    link_bytes_per_s  to all other GPUs, one direction (vendors add both: halved here)
    wave              what the wave model knows of it; None where its file has no section `wave`
    sources           key of the file's `values` -> "title, p. N (date) url; note"
    wave_sources      the same of its section `wave`
    """

    device: str
    vendor: Literal["nvidia", "amd"]
    names: tuple[str, ...]
    architecture: str
    compute_units: int
    memory_clock_hz: float | None = None
    memory_bus_bits: int | None = None
    peak_flops_per_s: Mapping[str, float]
    dram_bytes_per_s: float
    dram_bytes: int
    l2_bytes: int | None
    link_bytes_per_s: float | None
    power_limit_w: float
    wave: WaveDevice | None = None
    sources: Mapping[str, str]
    wave_sources: Mapping[str, str] = field(default_factory=dict)


class DeviceValues(Strict):
    """Section `values`: the datasheet in the vendor's units."""

    compute_units: Count
    memory_gb: Number
    dram_gb_per_s: Number
    memory_clock_mhz: Number | None = None
    memory_bus_bits: Count | None = None
    l2_mib: Number | None = None
    power_limit_w: Number
    bf16_dense_tflops: Number
    fp16_dense_tflops: Number | None = None
    fp8_dense_tflops: Number | None = None
    int8_dense_tops: Number | None = None
    fp4_dense_tflops: Number | None = None
    fp32_tflops: Number | None = None
    tf32_dense_tflops: Number | None = None
    fp64_tflops: Number | None = None
    link_gb_per_s: Number | None = None


class DeviceFile(Strict):
    """A file of config/devices: one GPU, every value with its source."""

    device: Text
    vendor: Literal["nvidia", "amd"]
    names: Annotated[list[Text], Field(min_length=1)]
    architecture: Literal[
        "sm_80", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "gfx942", "gfx950"
    ]
    sources: Annotated[dict[str, Source], Field(min_length=1)]
    values: DeviceValues
    wave: WaveSection | None = None


def load_device(path: Path) -> DeviceSpec:
    """The device of one file. Raises ConfigError with every error of the file."""
    errors: list[str] = []
    spec = _load_file(path, errors)
    if spec is None:
        raise ConfigError("\n".join(errors))
    return spec


def load_devices(folder: Path) -> dict[str, DeviceSpec]:
    """The devices of all *.yaml files of a folder by name of the file; {} where there is none.

    Raises ConfigError with every error of every file, and with names that two files claim.
    """
    errors: list[str] = []
    loaded = {path: _load_file(path, errors) for path in sorted(folder.glob("*.yaml"))}
    specs = {path: spec for path, spec in loaded.items() if spec is not None}
    errors += [
        f"{other_path}: names: '{name}' is a name in {path.name} too"
        for (path, spec), (other_path, other) in combinations(specs.items(), 2)
        for name in sorted(set(spec.names) & set(other.names))
    ]
    if errors:
        raise ConfigError("\n".join(errors))
    return {spec.device: spec for spec in specs.values()}


def match_device(
    specs: Mapping[str, DeviceSpec],
    *,
    name: str,
    compute_units: int,
    memory_clock_hz: float | None = None,
    memory_bus_bits: int | None = None,
) -> tuple[DeviceSpec | None, str]:
    """(the device that a card is exactly, ""), or (None, a sentence that says why it is none).

    Bandwidth counts where the driver reports both clock and bus width.
    """
    spec = next((spec for spec in specs.values() if name in spec.names), None)
    if spec is None:
        return None, f"no file of config/devices lists the name '{name}'"
    differences = []
    if compute_units != spec.compute_units:
        differences.append(f"{compute_units} compute units instead of {spec.compute_units}")
    bandwidth = _driver_bandwidth(spec.vendor, memory_clock_hz, memory_bus_bits)
    if bandwidth is not None and not _is_close(bandwidth, spec.dram_bytes_per_s):
        ours, theirs = bandwidth / GB, spec.dram_bytes_per_s / GB
        differences.append(f"memory of {ours:.0f} GB/s by clock and bus instead of {theirs:.0f}")
    if differences:
        return None, f"this '{name}' is not {spec.device}: it has {' and '.join(differences)}"
    return spec, ""


def _driver_bandwidth(vendor: str, clock_hz: float | None, bus_bits: float | None) -> float | None:
    """Bytes per second, None where clock or bus width is unknown."""
    if clock_hz is None or bus_bits is None:
        return None
    return _TRANSFERS_PER_CLOCK[vendor] * clock_hz * bus_bits / 8


def _is_close(bandwidth: float, printed: float) -> bool:
    return math.isclose(bandwidth, printed, rel_tol=_TOLERANCE)


def _load_file(path: Path, errors: list[str]) -> DeviceSpec | None:
    """The device of a file; None after adding everything wrong with it to `errors`."""
    file = read_sourced(DeviceFile, path, ("values", "wave"), errors)
    if file is None:
        return None
    spec = _spec_of_file(file)
    contradictions = [f"{path}: {line}" for line in _contradictions(path, file, spec)]
    errors += contradictions
    return None if contradictions else spec


def _contradictions(path: Path, file: DeviceFile, spec: DeviceSpec) -> Iterator[str]:
    """Errors that take more than one key to see."""
    if file.device != path.stem:
        yield f"device: '{file.device}' differs from the file name"
    bandwidth = _driver_bandwidth(file.vendor, spec.memory_clock_hz, spec.memory_bus_bits)
    if bandwidth is not None and not _is_close(bandwidth, spec.dram_bytes_per_s):
        yield f"values.dram_gb_per_s: clock and bus width give {bandwidth / GB:.0f}"
    if file.wave is not None and spec.link_bytes_per_s is None:
        yield "values.link_gb_per_s: missing, and section `wave` needs it"


def _spec_of_file(file: DeviceFile) -> DeviceSpec:
    values = si_fields(file.values)
    l2, link = values.get("l2_bytes"), values.get("link_bytes_per_s")
    spec = DeviceSpec(
        device=file.device,
        vendor=file.vendor,
        names=tuple(file.names),
        architecture=file.architecture,
        compute_units=values["compute_units"],
        memory_clock_hz=values.get("memory_clock_hz"),
        memory_bus_bits=values.get("memory_bus_bits"),
        peak_flops_per_s={
            name.split("_")[0]: rate
            for name, rate in values.items()
            if name.endswith("_flops_per_s")
        },
        dram_bytes_per_s=values["dram_bytes_per_s"],
        dram_bytes=round(values["memory_bytes"]),
        l2_bytes=None if l2 is None else round(l2),
        link_bytes_per_s=None if link is None else link / 2,
        power_limit_w=values["power_limit_w"],
        sources=citations(file.values, file.sources),
    )
    if file.wave is None or link is None:  # a wave without a link is reported by _contradictions
        return spec
    same = ("device", "compute_units", "dram_bytes", "dram_bytes_per_s", "link_bytes_per_s")
    of_spec = {name: getattr(spec, name) for name in same}
    return replace(
        spec,
        wave=WaveDevice(**of_spec, **si_fields(file.wave)),
        wave_sources=citations(file.wave, file.sources),
    )
