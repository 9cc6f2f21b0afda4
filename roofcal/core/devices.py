"""config/devices/*.yaml -> DeviceSpec: vendor's units -> SI, the only such conversion.

A card is matched by exact identity: name, number of compute units, and memory bandwidth as its
driver's clock and bus width give it. The driver's clock is no rate of transfer:
- NVML and CUDA: half the rate, so x 2, for HBM and for GDDR alike (RTX 4090: 10501 MHz for
  21 Gbit/s per pin). Data bases of GPUs list GDDR's command clock instead (1313 MHz there): do not
  copy it into memory_clock_mhz.
- HIP on gfx942 and gfx950: the command clock of HBM3, so x 4 (MI300X: 1300 MHz for 5.2 Gbit/s).
"""

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date as Date  # noqa: N812 (a field below is called date)
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from roofcal.core.units import GB, MIB, TERA

_MEGA: Final = 10**6
_TRANSFERS_PER_CLOCK: Final = {"nvidia": 2, "amd": 4}
_TOLERANCE: Final = 0.06  # datasheets round, drivers differ by a disabled channel (7680, 8192 bit)
_RATES: Final = {
    "bf16": "bf16_dense_tflops",
    "fp16": "fp16_dense_tflops",
    "fp8": "fp8_dense_tflops",
    "int8": "int8_dense_tops",
    "fp4": "fp4_dense_tflops",
    "fp32": "fp32_tflops",
    "tf32": "tf32_dense_tflops",
    "fp64": "fp64_tflops",
}


class DatasheetError(ValueError):
    """Everything wrong with the files of config/devices, one line per file and YAML path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One device as its vendor describes it, in SI; None where the vendor says nothing.

    names             exactly what torch.cuda.get_device_name() prints, one of them
    compute_units     SMs (NVIDIA) or CUs (AMD)
    peak_flops_per_s  dense rates by math dtype: bf16 fp16 fp8 int8 fp4 fp32 tf32 fp64
    link_bytes_per_s  to all other GPUs, one direction (vendors add both: halved here)
    sources           key of the file's `values` -> "title, p. N (date) url; note"
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
    sources: Mapping[str, str]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_Text = Annotated[str, Field(min_length=1)]


class _Source(_Strict):
    title: _Text
    date: _Text | int | Date  # YAML reads 2024 as a number and 2024-11-21 as a date
    url: Annotated[str, Field(pattern=r"^https://")] | None = None
    page: int | str | None = None


class _Value(_Strict):
    value: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
    source: _Text
    note: str | None = None


class _Count(_Value):
    value: Annotated[int, Field(strict=True, gt=0)]


class _Values(_Strict):
    compute_units: _Count
    memory_gb: _Value
    dram_gb_per_s: _Value
    memory_clock_mhz: _Value | None = None
    memory_bus_bits: _Count | None = None
    l2_mib: _Value | None = None
    power_limit_w: _Value
    bf16_dense_tflops: _Value
    fp16_dense_tflops: _Value | None = None
    fp8_dense_tflops: _Value | None = None
    int8_dense_tops: _Value | None = None
    fp4_dense_tflops: _Value | None = None
    fp32_tflops: _Value | None = None
    tf32_dense_tflops: _Value | None = None
    fp64_tflops: _Value | None = None
    link_gb_per_s: _Value | None = None

    def si(self, key: str, factor: float) -> float | None:
        """`value` of a key times the factor of its unit, None where the key is left out."""
        entry: _Value | None = getattr(self, key)
        return None if entry is None else entry.value * factor


class _File(_Strict):
    device: _Text
    vendor: Literal["nvidia", "amd"]
    names: Annotated[list[_Text], Field(min_length=1)]
    architecture: Literal[
        "sm_80", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "gfx942", "gfx950"
    ]
    sources: Annotated[dict[str, _Source], Field(min_length=1)]
    values: _Values


_KEYS: Final = [key for kind in (_File, _Values, _Value, _Source) for key in kind.model_fields]


def load_device(path: Path) -> DeviceSpec:
    """The device of one file. Raises DatasheetError with every error of the file."""
    spec, errors = _load(path)
    if spec is None:
        raise DatasheetError("\n".join(errors))
    return spec


def load_devices(folder: Path) -> dict[str, DeviceSpec]:
    """The devices of all *.yaml files of a folder by name of the file; {} where there is none.

    Raises DatasheetError with every error of every file, and with names that two files claim.
    """
    loaded = {path: _load(path) for path in sorted(folder.glob("*.yaml"))}
    specs = {path: spec for path, (spec, _) in loaded.items() if spec is not None}
    errors = [line for _, lines in loaded.values() for line in lines]
    errors += _claimed_twice(specs)
    if errors:
        raise DatasheetError("\n".join(errors))
    return {spec.device: spec for spec in specs.values()}


def match_device(
    specs: Mapping[str, DeviceSpec],
    *,
    name: str,
    compute_units: int,
    memory_clock_hz: float | None = None,
    memory_bus_bits: int | None = None,
) -> DeviceSpec | None:
    """The device that a card is, None where none is it exactly (explain_mismatch says why).

    Bandwidth counts where the driver tells both clock and bus width; see the top of this module.
    """
    for spec in _named(specs, name):
        if not _differences(spec, compute_units, memory_clock_hz, memory_bus_bits):
            return spec
    return None


def explain_mismatch(
    specs: Mapping[str, DeviceSpec],
    *,
    name: str,
    compute_units: int,
    memory_clock_hz: float | None = None,
    memory_bus_bits: int | None = None,
) -> str:
    """Why match_device finds nothing, in one sentence; "" where it finds the device."""
    for spec in _named(specs, name):
        found = _differences(spec, compute_units, memory_clock_hz, memory_bus_bits)
        return f"this '{name}' is not {spec.device}: it has {' and '.join(found)}" if found else ""
    return f"no file of config/devices lists the name '{name}'"


def _named(specs: Mapping[str, DeviceSpec], name: str) -> list[DeviceSpec]:
    """[the device of that name] or []: load_devices lets no two files claim one."""
    return [spec for spec in specs.values() if name in spec.names]


def _differences(
    spec: DeviceSpec, compute_units: int, clock_hz: float | None, bus_bits: int | None
) -> list[str]:
    found = []
    if compute_units != spec.compute_units:
        found.append(f"{compute_units} compute units instead of {spec.compute_units}")
    moved = _bandwidth(spec.vendor, clock_hz, bus_bits)
    if moved is not None and not math.isclose(moved, spec.dram_bytes_per_s, rel_tol=_TOLERANCE):
        ours, theirs = moved / GB, spec.dram_bytes_per_s / GB
        found.append(f"memory of {ours:.0f} GB/s by clock and bus instead of {theirs:.0f}")
    return found


def _bandwidth(vendor: str, clock_hz: float | None, bus_bits: float | None) -> float | None:
    """Bytes per second, None where clock or bus width is unknown."""
    if clock_hz is None or bus_bits is None:
        return None
    return _TRANSFERS_PER_CLOCK[vendor] * clock_hz * bus_bits / 8


def _claimed_twice(specs: Mapping[Path, DeviceSpec]) -> Iterator[str]:
    for (one, first), (other, second) in combinations(specs.items(), 2):
        for name in sorted(set(first.names) & set(second.names)):
            yield f"{other}: names: '{name}' is a name in {one.name} too"


def _load(path: Path) -> tuple[DeviceSpec | None, list[str]]:
    """(device, []) or (None, errors)."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        return None, [f"{path}: cannot be read: {' '.join(str(error).split())}"]
    errors = list(_source_errors(raw))
    try:
        file = _File.model_validate(raw)
    except ValidationError as error:
        errors = [*map(_explain, error.errors()), *errors]
    else:
        errors += _whole_errors(path, file)
    if errors:
        return None, [f"{path}: {line}" for line in errors]
    return _spec(file), []


def _source_errors(raw: Any) -> Iterator[str]:
    """Sources that are named and not listed, or listed and not named."""
    sources, values = (_mapping(_mapping(raw).get(key)) for key in ("sources", "values"))
    said = {key: _mapping(entry).get("source") for key, entry in values.items()}
    named = {key: source for key, source in said.items() if isinstance(source, str)}
    for key, source in named.items():
        if source not in sources:
            yield f"values.{key}.source: no source '{source}'{_nearest(source, sources)}"
    for source in sorted(sources.keys() - set(named.values())):
        yield f"sources.{source}: no value names it"


def _mapping(raw: Any) -> dict[str, Any]:
    """`raw` with keys as text where it is a mapping, else {}: its type is reported elsewhere."""
    return {str(key): entry for key, entry in raw.items()} if isinstance(raw, dict) else {}


def _whole_errors(path: Path, file: _File) -> Iterator[str]:
    """Errors that take more than one key to see."""
    if file.device != path.stem:
        yield f"device: '{file.device}' differs from the file name"
    values = file.values
    clock_hz, bus_bits = values.si("memory_clock_mhz", _MEGA), values.si("memory_bus_bits", 1)
    moved = _bandwidth(file.vendor, clock_hz, bus_bits)
    printed = values.dram_gb_per_s.value * GB
    if moved is not None and not math.isclose(moved, printed, rel_tol=_TOLERANCE):
        yield f"values.dram_gb_per_s: clock and bus width give {moved / GB:.0f}"


def _explain(item: Any) -> str:
    where = [str(part) for part in item["loc"]]
    path = ".".join(where) or "file"
    if item["type"] == "extra_forbidden":
        return f"{path}: unknown key{_nearest(where[-1], _KEYS)}"
    if item["type"] == "missing":
        return f"{path}: missing, and required"
    if item["type"] == "model_type":
        return f"{path}: must be a mapping of keys to values (got {item['input']!r})"
    return f"{path}: {item['msg']} (got {item['input']!r})"


def _nearest(word: str, known: Iterable[str]) -> str:
    """A suggestion to append to a message, empty where nothing known is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _spec(file: _File) -> DeviceSpec:
    values = file.values
    rates = {dtype: values.si(key, TERA) for dtype, key in _RATES.items()}
    l2, bus = values.si("l2_mib", MIB), values.memory_bus_bits
    return DeviceSpec(
        device=file.device,
        vendor=file.vendor,
        names=tuple(file.names),
        architecture=file.architecture,
        compute_units=values.compute_units.value,
        memory_clock_hz=values.si("memory_clock_mhz", _MEGA),
        memory_bus_bits=None if bus is None else bus.value,
        peak_flops_per_s={dtype: rate for dtype, rate in rates.items() if rate is not None},
        dram_bytes_per_s=values.dram_gb_per_s.value * GB,
        dram_bytes=round(values.memory_gb.value * GB),
        l2_bytes=None if l2 is None else round(l2),
        link_bytes_per_s=values.si("link_gb_per_s", GB / 2),
        power_limit_w=values.power_limit_w.value,
        sources=dict(_cited(file)),
    )


def _cited(file: _File) -> Iterator[tuple[str, str]]:
    """(key of `values`, its source in words)."""
    for key in _Values.model_fields:
        entry: _Value | None = getattr(file.values, key)
        if entry is not None:
            source = file.sources[entry.source]
            page = "" if source.page is None else f", p. {source.page}"
            url = "" if source.url is None else f" {source.url}"
            note = "" if entry.note is None else f"; {entry.note}"
            yield key, f"{source.title}{page} ({source.date}){url}{note}"
