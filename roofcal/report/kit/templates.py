"""The jinja2 templates in reports/templates; text is escaped, unknown names are errors.

What a page carries for a browser to unpack, when somebody looks at it, is gzip in base64: what the
filter `packed` makes, and `unpacked` of unpack.js reads.
"""

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

import jinja2

from roofcal.core.paths import CHECKOUT

FOLDER: Final = CHECKOUT / "reports" / "templates"


def packed(text: str) -> str:
    """The text in base64 of gzip without a date: equal texts give equal bytes."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def packed_json(value: Any) -> str:
    """A JSON value, packed; raises ValueError for NaN, which JSON does not have."""
    return packed(json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["packed"] = packed
    environment.filters["prose"] = prose
    return environment


def prose(text: str) -> str:
    """Sentences as HTML; `code` in backticks is the only mark-up."""
    escaped = escape(" ".join(text.split()), quote=False)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)


def render(template: str, **values: Any) -> str:
    """The text of a template; raises jinja2.UndefinedError for a name that `values` lacks."""
    return _environment().get_template(template).render(**values)


class CaptionError(ValueError):
    """A caption that is missing or has no heading; the message says how to write it."""


def read_caption(path: Path, words: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """(title, paragraphs as HTML) of a figure; raises as caption_text."""
    title, text = caption_text(path, words)
    return title, tuple(map(prose, re.split(r"\n\s*\n", text)))


@cache  # every dry run asks for each caption in the words of each op
def _caption_template(source: str) -> jinja2.Template:
    """Of plain text, in which nothing is escaped."""
    template: jinja2.Template = jinja2.Template(source, undefined=jinja2.StrictUndefined)
    return template


def caption_text(path: Path, words: Mapping[str, str]) -> tuple[str, str]:
    """(title, text below it) of a figure, as plain Markdown; words: for the names in braces.

    Raises CaptionError for a file that is missing or does not begin with a heading.
    """
    if not path.is_file():
        raise CaptionError(f"{path} is missing: every figure has a caption")
    text = _caption_template(path.read_text(encoding="utf-8")).render(**words)
    head, _, rest = text.strip().partition("\n")
    if not head.startswith("# ") or not rest.strip():
        raise CaptionError(f"{path}: write '# title', an empty line, and what the figure shows")
    return head.removeprefix("# ").strip(), rest.strip()
