"""Datasheets: config/devices/*.yaml in the vendor's units -> DeviceSpec in SI.

The only place where units are converted. A datasheet is never edited by a calibration.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

Architecture = Literal[
    "sm_80", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "gfx942", "gfx950"
]
# The observed bandwidth (2 x memory clock x bus width) may differ from the datasheet's by rounding.
_BANDWIDTH_TOLERANCE: Final = 0.06
_RATES: Final = {
    "bf16": "bf16_dense_tflops",
    "fp16": "fp16_dense_tflops",
    "fp8": "fp8_dense_tflops",
    "int8": "int8_dense_tops",
    "fp4": "fp4_dense_tflops",
    "tf32": "tf32_dense_tflops",
    "fp32": "fp32_tflops",
    "fp64": "fp64_tflops",
}


class DatasheetError(ValueError):
    """Everything wrong with the datasheets, one line per file and key."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Model):
    """A document of the vendor."""

    title: str
    url: str
    date: Annotated[str, BeforeValidator(str)]  # YAML reads 2024 and 2024-11-01 as other types
    page: int | str | None = None


class Value(_Model):
    """One figure, in the vendor's unit (the unit is in the key), and where it is from."""

    value: Annotated[float, Field(gt=0)]
    source: str
    note: str | None = None


class Values(_Model):
    """The figures of a device. Rates are dense, never with sparsity."""

    compute_units: Value
    memory_gb: Value
    dram_gb_per_s: Value
    l2_mib: Value
    power_limit_w: Value
    memory_clock_mhz: Value | None = None
    memory_bus_bits: Value | None = None
    bf16_dense_tflops: Value | None = None
    fp16_dense_tflops: Value | None = None
    fp8_dense_tflops: Value | None = None
    int8_dense_tops: Value | None = None
    fp4_dense_tflops: Value | None = None
    tf32_dense_tflops: Value | None = None
    fp32_tflops: Value | None = None
    fp64_tflops: Value | None = None
    link_gb_per_s: Value | None = None


class DeviceFile(_Model):
    """config/devices/<device>.yaml."""

    device: str
    vendor: Literal["nvidia", "amd"]
    names: list[str] = Field(min_length=1)
    architecture: Architecture
    sources: dict[str, Source]
    values: Values

    @model_validator(mode="after")
    def _every_source_exists(self) -> "DeviceFile":
        for key, value in self.values:
            if value is not None and value.source not in self.sources:
                raise ValueError(f"values.{key}.source: '{value.source}' is not under sources")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A datasheet in SI units.

    peak_flops_per_s   dense rate per math dtype (bf16, fp8, ...), only those the vendor states
    link_bytes_per_s   to all peers, one direction (vendors add both; halved here), None without
    sources            figure -> "title, p. N (date) url; note"
    """

    device: str
    vendor: Literal["nvidia", "amd"]
    names: tuple[str, ...]
    architecture: str
    compute_units: int
    peak_flops_per_s: Mapping[str, float]
    dram_bytes_per_s: float
    dram_bytes: float
    l2_bytes: float
    link_bytes_per_s: float | None
    power_limit_w: float
    sources: Mapping[str, str]


def load_devices(folder: Path) -> dict[str, DeviceSpec]:
    """Device -> datasheet of every file; raises DatasheetError with the errors of all of them."""
    errors: list[str] = []
    specs: dict[str, DeviceSpec] = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            spec = load_device(path)
        except DatasheetError as error:
            errors.append(str(error))
        else:
            errors += _name_clashes(path, spec, specs)
            specs[spec.device] = spec
    if errors:
        raise DatasheetError("\n".join(errors))
    return specs


def _name_clashes(path: Path, spec: DeviceSpec, specs: Mapping[str, DeviceSpec]) -> Iterator[str]:
    for other in specs.values():
        for name in set(other.names) & set(spec.names):
            same = other.compute_units == spec.compute_units
            if same and abs(other.dram_bytes_per_s / spec.dram_bytes_per_s - 1) < 0.06:
                yield f"{path}: names: '{name}' is also {other.device}, and nothing tells them apart"


def load_device(path: Path) -> DeviceSpec:
    """The datasheet of one file; raises DatasheetError with all its errors."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        file = DeviceFile.model_validate(content)
    except (OSError, yaml.YAMLError) as error:
        raise DatasheetError(f"{path}: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise DatasheetError("\n".join(_explain(path, item) for item in error.errors())) from None
    if file.device != path.stem:
        raise DatasheetError(f"{path}: device: '{file.device}' differs from the file name")
    return _in_si_units(file)


def _explain(path: Path, item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        known = {*Values.model_fields, *DeviceFile.model_fields, *Value.model_fields}
        close = difflib.get_close_matches(str(item["loc"][-1]), known, n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        return f"{path}: {where}: unknown key{hint}"
    if item["type"] == "missing":
        return f"{path}: {where}: missing, and required"
    given = "" if isinstance(item["input"], dict) else f" (got {item['input']!r})"
    message = item["msg"].removeprefix("Value error, ")
    return f"{path}: {where + ': ' if where else ''}{message}{given}"


def _in_si_units(file: DeviceFile) -> DeviceSpec:
    values = file.values
    rates = {dtype: getattr(values, key) for dtype, key in _RATES.items()}
    link = values.link_gb_per_s
    return DeviceSpec(
        device=file.device,
        vendor=file.vendor,
        names=tuple(file.names),
        architecture=file.architecture,
        compute_units=int(values.compute_units.value),
        peak_flops_per_s={k: v.value * 1e12 for k, v in rates.items() if v is not None},
        dram_bytes_per_s=values.dram_gb_per_s.value * 1e9,
        dram_bytes=values.memory_gb.value * 1e9,
        l2_bytes=values.l2_mib.value * (1 << 20),
        link_bytes_per_s=link.value * 1e9 / 2 if link else None,
        power_limit_w=values.power_limit_w.value,
        sources={key: _cite(file, value) for key, value in values if value is not None},
    )


def _cite(file: DeviceFile, value: Value) -> str:
    source = file.sources[value.source]
    page = f", p. {source.page}" if source.page is not None else ""
    note = f"; {value.note}" if value.note else ""
    return f"{source.title}{page} ({source.date}) {source.url}{note}"


def match_device(
    specs: Mapping[str, DeviceSpec],
    *,
    name: str,
    compute_units: int,
    memory_clock_hz: float | None = None,
    memory_bus_bits: int | None = None,
) -> DeviceSpec | None:
    """The datasheet of a card by exact identity, never by a prefix of its name; None without one."""
    observed = _observed_bandwidth(memory_clock_hz, memory_bus_bits)
    for spec in specs.values():
        same = name in spec.names and compute_units == spec.compute_units
        if same and _bandwidth_agrees(spec, observed):
            return spec
    return None


def _observed_bandwidth(clock_hz: float | None, bus_bits: int | None) -> float | None:
    """Bytes per second of a double-data-rate memory: two transfers per clock and wire. NVML's clock
    of GDDR memory is scaled so that the same product holds."""
    if clock_hz is None or bus_bits is None:
        return None
    return 2 * clock_hz * bus_bits / 8


def _bandwidth_agrees(spec: DeviceSpec, observed: float | None) -> bool:
    return observed is None or abs(observed / spec.dram_bytes_per_s - 1) <= _BANDWIDTH_TOLERANCE


def explain_mismatch(
    specs: Mapping[str, DeviceSpec],
    *,
    name: str,
    compute_units: int,
    memory_clock_hz: float | None = None,
    memory_bus_bits: int | None = None,
) -> str | None:
    """Why no datasheet matches a card, in one sentence; None where one does."""
    identity = {"name": name, "compute_units": compute_units}
    memory = {"memory_clock_hz": memory_clock_hz, "memory_bus_bits": memory_bus_bits}
    if match_device(specs, **identity, **memory):  # type: ignore[arg-type]
        return None
    way = "the study runs without datasheet columns; a file in config/devices adds them"
    named = [spec for spec in specs.values() if name in spec.names]
    if not named:
        return f"no datasheet lists the name '{name}': {way}"
    spec = named[0]
    if compute_units != spec.compute_units:
        return f"{spec.device} has {spec.compute_units} units, this card {compute_units}: {way}"
    observed = (_observed_bandwidth(memory_clock_hz, memory_bus_bits) or 0) / 1e9
    listed = spec.dram_bytes_per_s / 1e9
    return f"{spec.device} has {listed:.0f} GB/s, this card's memory {observed:.0f} GB/s: {way}"
