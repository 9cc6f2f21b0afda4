"""config/wave/*.yaml -> WaveDevice: units of the files (MHz, GB/s, KiB, us) -> SI, only here."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date as Date  # noqa: N812 (a field below is called date)
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from roofcal.core.units import GB, KIB
from roofcal.models.errors import PredictError
from roofcal.models.wave.device import NotebookTerms, WaveDevice

_MEGA: Final = 10**6


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_Text = Annotated[str, Field(min_length=1)]
_Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
_Fraction = Annotated[float, Field(strict=True, gt=0, le=1)]
_Whole = Annotated[int, Field(strict=True, gt=0)]


class _Source(_Strict):
    title: _Text
    date: _Text | int | Date  # YAML reads 2024 as a number and 2024-11-21 as a date
    url: Annotated[str, Field(pattern=r"^https://")] | None = None


class _Sourced(_Strict):
    source: _Text
    note: str | None = None


class _Number(_Sourced):
    value: _Positive


class _Share(_Sourced):
    value: _Fraction


class _Count(_Sourced):
    value: _Whole


class _Rates(_Sourced):
    value: Annotated[dict[str, _Positive], Field(min_length=1)]


class _SoftmaxSteps(_Strict):
    maximum: _Positive
    subtract: _Positive
    exponential: _Positive
    sum: _Positive
    scale: _Positive


class _Softmax(_Sourced):
    value: _SoftmaxSteps


class _Tiles(_Sourced):
    value: Annotated[list[tuple[_Whole, _Whole]], Field(min_length=1)]


class _Rows(_Sourced):
    value: Annotated[list[_Whole], Field(min_length=1)]


class _Reads(_Sourced):
    value: tuple[_Positive, _Positive]


class _Values(_Strict):
    compute_units: _Count
    clock_mhz: _Number
    matrix_flops_per_clock: _Rates
    matrix_fraction: _Share
    attention_fraction: _Share
    tiles: _Tiles
    attention_rows: _Rows
    lds_bytes_per_clock: _Number
    lds_kib: _Count
    lds_reads: _Reads
    l2_read_bytes_per_clock: _Number
    dram_gb: _Number
    dram_gb_per_s: _Number
    memory_fraction: _Share
    product_memory_fraction: _Share
    launch_us: _Number
    vector_per_clock: _Number
    softmax_per_clock: _Softmax
    reduction_clocks: _Number
    normalisation_reduction_clocks: _Number
    activation_clocks_per_element: _Rates
    link_gb_per_s: _Number
    link_fraction: _Share
    link_latency_us: _Number
    link_peers: _Count
    link_ranks: _Count


class _Notebook(_Strict):
    launch_loss: _Share
    write_bytes_per_clock: _Number
    write_fraction: _Share
    operand_depth: _Count
    normalisation_bytes_per_element: _Number
    estimate_dram_gb_per_s: _Number
    estimate_memory_fraction: _Share
    estimate_matrix_fraction: _Share


class _File(_Strict):
    device: _Text
    sources: Annotated[dict[str, _Source], Field(min_length=1)]
    values: _Values
    notebook: _Notebook | None = None


_KEYS: Final = [
    key
    for kind in (_File, _Values, _Notebook, _Number, _Source, _SoftmaxSteps)
    for key in kind.model_fields
]
# Key of a file -> (field of the dataclass, its value in SI), where they differ.
_CONVERTED: Final[Mapping[str, tuple[str, Callable[[float], float]]]] = {
    "clock_mhz": ("clock_hz", lambda value: value * _MEGA),
    "lds_kib": ("lds_bytes", lambda value: value * KIB),
    "dram_gb": ("dram_bytes", lambda value: value * GB),
    "dram_gb_per_s": ("dram_bytes_per_s", lambda value: value * GB),
    "launch_us": ("launch_s", lambda value: value / _MEGA),
    "link_gb_per_s": ("link_bytes_per_s", lambda value: value * GB),
    "link_latency_us": ("link_latency_s", lambda value: value / _MEGA),
    "estimate_dram_gb_per_s": ("estimate_dram_bytes_per_s", lambda value: value * GB),
}


def load_wave_device(path: Path) -> WaveDevice:
    """The device of one file; raises PredictError with every error of the file."""
    raw = _read(path)
    errors = list(_source_errors(raw))
    try:
        file = _File.model_validate(raw)
    except ValidationError as error:
        errors = [*map(_explain, error.errors()), *errors]
    else:
        if file.device != path.stem:
            errors.append(f"device: '{file.device}' differs from the file name")
        if not errors:
            return _device(file)
    raise PredictError("\n".join(f"{path}: {line}" for line in errors))


def missing_description(path: Path) -> str:
    """What to say where a device has no file: its name, those there are, and the way out."""
    known = sorted(file.stem for file in path.parent.glob("*.yaml"))
    hint = _nearest(path.stem, known) or "."
    return (
        f"there is no {path}{hint} The wave model knows {', '.join(known) or 'no device'}; "
        "describe another in a file of its own beside these"
    )


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise PredictError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None


def _source_errors(raw: Any) -> Iterator[str]:
    """Sources that are named and not listed, or listed and not named."""
    sources = _mapping(_mapping(raw).get("sources"))
    named = {
        f"{part}.{key}": _mapping(entry).get("source")
        for part in ("values", "notebook")
        for key, entry in _mapping(_mapping(raw).get(part)).items()
    }
    for key, source in named.items():
        if isinstance(source, str) and source not in sources:
            yield f"{key}.source: no source '{source}'{_nearest(source, sources)}"
    for source in sorted(sources.keys() - set(map(str, named.values()))):
        yield f"sources.{source}: no value names it"


def _mapping(raw: Any) -> dict[str, Any]:
    """`raw` with keys as text where it is a mapping, else {}: its type is reported elsewhere."""
    return {str(key): entry for key, entry in raw.items()} if isinstance(raw, dict) else {}


def _explain(item: Any) -> str:
    where = [str(part) for part in item["loc"]]
    path = ".".join(where) or "file"
    if item["type"] == "extra_forbidden":
        return f"{path}: unknown key{_nearest(where[-1], _KEYS)}"
    if item["type"] == "missing":
        return f"{path}: missing, and required"
    return f"{path}: {item['msg']} (got {item['input']!r})"


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _device(file: _File) -> WaveDevice:
    values = _fields(file.values)
    return WaveDevice(
        device=file.device,
        notebook=None if file.notebook is None else NotebookTerms(**_fields(file.notebook)),
        sources=dict(_cited(file)),
        **values,
    )


def _fields(part: BaseModel) -> dict[str, Any]:
    """Fields of a dataclass: values in SI, lists as tuples, mappings as they are."""
    found = {}
    for key in type(part).model_fields:
        value = getattr(part, key).value
        if isinstance(value, list):
            value = tuple(value)
        elif isinstance(value, BaseModel):
            value = value.model_dump()
        name, converted = _CONVERTED.get(key, (key, None))
        found[name] = value if converted is None else converted(value)
    return found


def _cited(file: _File) -> Iterator[tuple[str, str]]:
    """(key of the file, its source in words)."""
    for part in (file.values, file.notebook):
        for key in type(part).model_fields if part is not None else ():
            entry = getattr(part, key)
            source = file.sources[entry.source]
            url = "" if source.url is None else f" {source.url}"
            note = "" if entry.note is None else f"; {entry.note}"
            yield key, f"{source.title} ({source.date}){url}{note}"
