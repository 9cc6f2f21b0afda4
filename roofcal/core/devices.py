"""config/devices/*.yaml -> DeviceSpec: a GPU in SI, and which of them a card is.

A card is matched by exact identity: name, number of compute units, and memory bandwidth as its
driver's clock and bus width give it. The driver's clock is not the rate of transfer:
- NVML and CUDA report half the rate, so x 2, for HBM and for GDDR alike (RTX 4090: 10501 MHz for
  21 Gbit/s per pin). Databases of GPUs list GDDR's command clock (1313 MHz there), which does not
  belong into memory_clock_mhz.
- HIP on gfx942 and gfx950 reports the command clock of HBM3, so x 4 (MI300X: 1300 MHz for
  5.2 Gbit/s).

Section `wave` is what the wave model knows of a device; docs/models.md says how it uses it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from roofcal.core.units import GB
from roofcal.core.yaml_files import (
    ConfigError,
    Count,
    Number,
    Positive,
    Share,
    Source,
    Sourced,
    Strict,
    Text,
    Whole,
    citations,
    read_sourced,
    si_fields,
)

_TRANSFERS_PER_CLOCK: Final = {"nvidia": 2, "amd": 4}
_TOLERANCE: Final = 0.06  # datasheets round, drivers differ by a disabled channel (7680, 8192 bit)


NotNegative = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveDevice:
    """A device as the wave model sees it, in SI.

    `per_clock` is per compute unit and clock, except `l2_read_bytes_per_clock`, which is of the
    whole device.

    matrix_flops_per_clock   of a compute unit by math dtype, dense
    matrix_fraction          of that rate which the largest products reach
    attention_fraction       of what large products reach, in the products of flash attention
    tiles                    (rows, columns) of C that one workgroup computes
    attention_rows           rows of Q that one workgroup keeps
    lds_reads                how often an element of A, of B is read from LDS (shared memory)
    memory_fraction          of the DRAM's bandwidth that a stream reaches
    product_memory_fraction  of that, in a product that memory bounds
    vector_per_clock         elements that one plain operation handles
    softmax_per_clock        elements per clock of each step of the softmax
    link_bytes_per_s         to all other GPUs, one direction
    link_peers               GPUs that share link_bytes_per_s; 1 where a switch gives all to one
    link_ranks               GPUs that the links reach, this one included
    """

    device: str
    compute_units: int
    clock_hz: float
    matrix_flops_per_clock: Mapping[str, float]
    matrix_fraction: float
    attention_fraction: float
    tiles: tuple[tuple[int, int], ...]
    attention_rows: tuple[int, ...]
    lds_bytes_per_clock: float
    lds_bytes: int
    lds_reads: tuple[float, float]
    l2_read_bytes_per_clock: float
    dram_bytes: float
    dram_bytes_per_s: float
    memory_fraction: float
    product_memory_fraction: float
    launch_s: float
    vector_per_clock: float
    softmax_per_clock: Mapping[str, float]
    reduction_clocks: float
    normalisation_reduction_clocks: float
    activation_clocks_per_element: Mapping[str, float]
    link_bytes_per_s: float
    link_fraction: float
    link_latency_s: float
    link_peers: int
    link_ranks: int

    @property
    def stream_bytes_per_s(self) -> float:
        """Bandwidth of memory that a kernel reaches."""
        return self.dram_bytes_per_s * self.memory_fraction

    @property
    def l2_bytes_per_clock_and_unit(self) -> float:
        """The share of the cache's bandwidth that a compute unit has when all are busy."""
        return self.l2_read_bytes_per_clock / self.compute_units


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


class SoftmaxSteps(Strict):
    """Elements per clock of each step of the softmax."""

    maximum: Positive
    subtract: Positive
    exponential: Positive
    sum: Positive
    scale: Positive


class Rates(Sourced[Annotated[dict[str, Positive], Field(min_length=1)]]):
    """A number by name, of a dtype or a function."""


class TileShapes(Sourced[Annotated[list[tuple[Whole, Whole]], Field(min_length=1)]]):
    """[rows, columns] of each tile."""


class RowCounts(Sourced[Annotated[list[Whole], Field(min_length=1)]]):
    """Numbers of rows."""


class OperandReads(Sourced[tuple[NotNegative, NotNegative]]):
    """[reads of A, reads of B]; 0 where two units share it, each storing and reading half."""


class SoftmaxRates(Sourced[SoftmaxSteps]):
    """Rates of the steps of the softmax."""


class WaveSection(Strict):
    """Section `wave` of a device's file; the rest of WaveDevice stands in its section `values`."""

    clock_mhz: Number
    matrix_flops_per_clock: Rates
    matrix_fraction: Share
    attention_fraction: Share
    tiles: TileShapes
    attention_rows: RowCounts
    lds_bytes_per_clock: Number
    lds_kib: Count
    lds_reads: OperandReads
    l2_read_bytes_per_clock: Number
    memory_fraction: Share
    product_memory_fraction: Share
    launch_us: Number
    vector_per_clock: Number
    softmax_per_clock: SoftmaxRates
    reduction_clocks: Number
    normalisation_reduction_clocks: Number
    activation_clocks_per_element: Rates
    link_fraction: Share
    link_latency_us: Number
    link_peers: Count
    link_ranks: Count


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
    if other := _other_bandwidth(spec, memory_clock_hz, memory_bus_bits):
        ours, theirs = other / GB, spec.dram_bytes_per_s / GB
        differences.append(f"memory of {ours:.0f} GB/s by clock and bus instead of {theirs:.0f}")
    if differences:
        return None, f"this '{name}' is not {spec.device}: it has {' and '.join(differences)}"
    return spec, ""


def _other_bandwidth(
    spec: DeviceSpec, clock_hz: float | None, bus_bits: float | None
) -> float | None:
    """Bytes per second by clock and bus, where both are known and the datasheet says otherwise."""
    if clock_hz is None or bus_bits is None:
        return None
    bandwidth = _TRANSFERS_PER_CLOCK[spec.vendor] * clock_hz * bus_bits / 8
    is_close = math.isclose(bandwidth, spec.dram_bytes_per_s, rel_tol=_TOLERANCE)
    return None if is_close else bandwidth


def _load_file(path: Path, errors: list[str]) -> DeviceSpec | None:
    """The device of a file; None after adding everything wrong with it to `errors`."""
    file = read_sourced(DeviceFile, path, ("values", "wave"), errors)
    if file is None:
        return None
    spec, before = _spec_of_file(file), len(errors)
    if file.device != path.stem:
        errors.append(f"{path}: device: '{file.device}' differs from the file name")
    if other := _other_bandwidth(spec, spec.memory_clock_hz, spec.memory_bus_bits):
        errors.append(f"{path}: values.dram_gb_per_s: clock and bus width give {other / GB:.0f}")
    if file.wave is not None and spec.link_bytes_per_s is None:
        errors.append(f"{path}: values.link_gb_per_s: missing, and section `wave` needs it")
    return spec if len(errors) == before else None


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
    if file.wave is None or link is None:  # _load_file reports a wave without a link
        return spec
    same = ("device", "compute_units", "dram_bytes", "dram_bytes_per_s", "link_bytes_per_s")
    of_spec = {name: getattr(spec, name) for name in same}
    return replace(
        spec,
        wave=WaveDevice(**of_spec, **si_fields(file.wave)),
        wave_sources=citations(file.wave, file.sources),
    )
