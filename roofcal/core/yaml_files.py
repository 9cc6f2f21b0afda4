"""The YAML files of config/: read, checked, their values with sources converted to SI.

Everything wrong becomes a line that names file and key, in a list `errors` for all files together.
A figure from the literature is an entry {value: 4800, source: h200-datasheet, note: ...}: its unit
ends the key (dram_gb_per_s), its source is a key of the file's `sources`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date as Date  # noqa: N812 (a field below is called date)
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from roofcal.core.files import MOST_CONFIG_BYTES, InputError, parse_yaml, read_json, read_text
from roofcal.core.names import did_you_mean_or_all
from roofcal.core.units import GB, KIB, MEGA, MIB, TERA

# End of a key -> its end in SI, and the conversion. The longest end comes first: `_gb_per_s` before
# `_gb`. Microseconds are divided, because 5 * 1e-6 is not the float 5e-6.
_SI_UNITS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "_gb_per_s": ("_bytes_per_s", lambda value: value * GB),
    "_gb": ("_bytes", lambda value: value * GB),
    "_mib": ("_bytes", lambda value: value * MIB),
    "_kib": ("_bytes", lambda value: value * KIB),
    "_tflops": ("_flops_per_s", lambda value: value * TERA),
    "_tops": ("_flops_per_s", lambda value: value * TERA),
    "_mhz": ("_hz", lambda value: value * MEGA),
    "_us": ("_s", lambda value: value / MEGA),
}

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(strict=True, gt=0, le=1)]
Whole = Annotated[int, Field(strict=True, gt=0, le=1 << 53)]  # exact as a float
Natural = Annotated[int, Field(strict=True, ge=0, le=1 << 53)]


class Strict(BaseModel):
    """A part of a file: keys that are not declared are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Strict):
    """A document or an observation that values come from."""

    title: Text
    date: Text | int | Date  # YAML reads 2024 as a number and 2024-11-21 as a date
    url: Annotated[str, Field(pattern=r"^https://")] | None = None
    page: int | str | None = None

    def cited(self, note: str | None) -> str:
        """The source in words: "title, p. N (date) url; note"."""
        page = "" if self.page is None else f", p. {self.page}"
        url = "" if self.url is None else f" {self.url}"
        return f"{self.title}{page} ({self.date}){url}{'' if note is None else f'; {note}'}"


class Sourced(Strict, Generic[T]):
    """A value in the unit that ends its key, and where it comes from."""

    value: T
    source: Text
    note: str | None = None


class Number(Sourced[Positive]):
    """A number above zero."""


class Share(Sourced[Fraction]):
    """A part of a whole, above zero."""


class Count(Sourced[Whole]):
    """A whole number above zero."""


class ConfigError(ValueError):
    """Everything wrong with files of config/, one line per file and key."""


def read_yaml(path: Path, errors: list[str]) -> dict[str, Any]:
    """The mapping of a YAML file, or of a .json; {} after adding to `errors` what is wrong."""
    try:
        if path.suffix == ".json":
            content = read_json(path, constants=True)  # transformers writes Infinity
        else:
            content = parse_yaml(read_text(path, MOST_CONFIG_BYTES))
    except InputError as error:
        errors.append(str(error))
        return {}
    except yaml.YAMLError as error:
        errors.append(f"{path}: not YAML: {' '.join(str(error).split())}")
        return {}
    if content is None or isinstance(content, dict):
        return content or {}
    errors.append(f"{path}: must be a mapping of keys to values, is a {type(content).__name__}")
    return {}


def validated(kind: type[M], content: Any, path: Path, errors: list[str]) -> M | None:
    """`content` as one of `kind`; None after adding every error, one line each."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        errors += [f"{path}: {_error_text(kind, item)}" for item in error.errors()]
        return None


def read_sourced(kind: type[M], path: Path, parts: Sequence[str], errors: list[str]) -> M | None:
    """A file whose `parts` are mappings of sourced values; None after adding every error.

    parts  keys of the file, e.g. ("values", "wave"). Their entries name keys of `sources`; a source
           that no entry names is an error too.
    """
    before = len(errors)
    content = read_yaml(path, errors)
    if len(errors) > before:
        return None
    file = validated(kind, content, path, errors)
    sources = _mapping_or_empty(content.get("sources"))
    named = {
        f"{part}.{key}": _mapping_or_empty(entry).get("source")
        for part in parts
        for key, entry in _mapping_or_empty(content.get(part)).items()
    }
    for key, source in named.items():
        if isinstance(source, str) and source not in sources:
            hint = did_you_mean_or_all(source, sources)
            errors.append(f"{path}: {key}.source: no source '{source}'{hint}")
    idle = sorted(sources.keys() - set(map(str, named.values())))
    errors += [f"{path}: sources.{source}: no value names it" for source in idle]
    return file if len(errors) == before else None


def citations(part: BaseModel, sources: Mapping[str, Source]) -> dict[str, str]:
    """Key -> its source in words, of every sourced value that a part of a file has."""
    entries = {key: getattr(part, key) for key in type(part).model_fields}
    return {
        key: sources[entry.source].cited(entry.note)
        for key, entry in entries.items()
        if entry is not None
    }


def si_fields(part: BaseModel) -> dict[str, Any]:
    """Field in SI -> value, of the keys that are set: clock_mhz: 1830 -> {"clock_hz": 1.83e9}.

    Lists become tuples and nested mappings plain ones, as fields of frozen dataclasses.
    """
    fields = {}
    for key, entry in ((key, getattr(part, key)) for key in type(part).model_fields):
        if entry is None:
            continue
        value = tuple(entry.value) if isinstance(entry.value, list) else entry.value
        value = value.model_dump() if isinstance(value, BaseModel) else value
        end = next((end for end in _SI_UNITS if key.endswith(end)), None)
        if end is None:
            fields[key] = value
        else:
            si_end, converted = _SI_UNITS[end]
            fields[key.removesuffix(end) + si_end] = converted(value)
    return fields


def _mapping_or_empty(content: Any) -> dict[str, Any]:
    """`content` with keys as text where it is a mapping, else {}: `validated` reports its type."""
    if not isinstance(content, dict):
        return {}
    return {str(key): entry for key, entry in content.items()}


def _error_text(kind: type[Any], item: Any) -> str:
    keys = [str(part) for part in item["loc"] if not str(part).startswith(("list[", "function-"))]
    where = ".".join(keys) or "file"
    if item["type"] == "extra_forbidden":
        return f"{where}: unknown key{_key_hint(kind, keys)}"
    if item["type"] == "missing":
        return f"{where}: missing, and required"
    if item["type"] == "model_type":
        return f"{where}: must be a mapping of keys to values (got {item['input']!r})"
    message = item["msg"].removeprefix("Value error, ")
    value = "" if isinstance(item["input"], dict) else f" (got {item['input']!r})"
    return f"{where}: {message}{value}"


def _key_hint(kind: type[Any], keys: Sequence[str]) -> str:
    """Where an unknown key belongs, else which key of its own place is meant."""
    allowed_at = _allowed_keys(kind.model_json_schema())
    *place, name = (key for key in keys if not key.isdecimal())  # without the indices of lists
    elsewhere = [".".join(where) for where, allowed in allowed_at.items() if name in allowed]
    if elsewhere:
        where = f"below {elsewhere[0]}" if elsewhere[0] else "at the top of the file"
        return f" here; it belongs {where}"
    own = [
        allowed
        for where, allowed in allowed_at.items()
        if len(place) == len(where)
        and all(step in (key, "<name>") for key, step in zip(place, where, strict=True))
    ]
    return did_you_mean_or_all(name, set().union(*(own or allowed_at.values())))


def _allowed_keys(schema: dict[str, Any]) -> dict[tuple[str, ...], set[str]]:
    """Place in a file, as a path of keys -> the keys that may stand there; the top comes first.

    Lists have the place of the key that holds them; in a mapping with any keys the step is <name>.
    """
    allowed_at: dict[tuple[str, ...], set[str]] = {}

    def visit(part: Any, place: tuple[str, ...], open_parts: tuple[str, ...]) -> None:
        if not isinstance(part, dict) or part.get("$ref") in open_parts:
            return
        if "$ref" in part:
            name = part["$ref"]
            visit(schema["$defs"][name.rpartition("/")[2]], place, (*open_parts, name))
        for choice in part.get("anyOf", []):
            visit(choice, place, open_parts)
        visit(part.get("items"), place, open_parts)
        visit(part.get("additionalProperties"), (*place, "<name>"), open_parts)
        for key, value in part.get("properties", {}).items():
            allowed_at.setdefault(place, set()).add(key)
            visit(value, (*place, key), open_parts)

    visit(schema, (), ())
    return allowed_at
