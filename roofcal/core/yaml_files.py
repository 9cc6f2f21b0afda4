"""YAML files of config/, read and checked; what is wrong is one line that names file and key."""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)


class ConfigError(ValueError):
    """Everything wrong with files of config/, one line per file and key."""


def read_yaml(path: Path, errors: list[str]) -> dict[str, Any]:
    """The mapping of a file; {} after adding to `errors` what is wrong with it."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        errors.append(f"{path}: cannot be read ({error.strerror})")
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
        errors += [f"{path}: {_explain(kind, item)}" for item in error.errors()]
        return None


def _explain(kind: type[Any], item: Any) -> str:
    keys = [str(part) for part in item["loc"] if not str(part).startswith(("list[", "function-"))]
    where = ".".join(keys) or "file"
    if item["type"] == "extra_forbidden":
        return f"{where}: unknown key{nearest(keys[-1], _known_keys(kind))}"
    if item["type"] == "missing":
        return f"{where}: missing, and required"
    message = item["msg"].removeprefix("Value error, ")
    value = "" if isinstance(item["input"], dict) else f" (got {item['input']!r})"
    return f"{where}: {message}{value}"


def _known_keys(kind: type[Any]) -> set[str]:
    """Every key that occurs anywhere in a file of this kind, for suggestions."""
    schema = kind.model_json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    return {key for part in parts for key in part.get("properties", {})}


def nearest(word: str, known: Sequence[str] | set[str]) -> str:
    """A suggestion where something known is close, else the list of what is allowed."""
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; allowed: {', '.join(sorted(known))}"


def unknown(where: str, what: str, names: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    """One line per name that is not known, with the nearest one."""
    for name in names:
        if name not in known:
            yield f"{where}: unknown {what} '{name}'{nearest(name, known)}"
