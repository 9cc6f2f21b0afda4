"""Pages as their reader meets them: with all that is packed in them unpacked."""

import gzip
import re
from base64 import b64decode
from pathlib import Path
from typing import Final

# What charts are drawn from stays packed: it becomes no markup.
_NO_PROSE: Final = re.compile(r"<(script|style|pre|code)\b.*?</\1>", re.DOTALL)
_MARKDOWN: Final = re.compile(r"`|\*\*|\]\(")
_PACKED: Final = re.compile(
    r'<script type="application/gzip"(?! id="chart-)[^>]*>(.*?)</script>', re.DOTALL
)


def unpack(packed: str) -> str:
    """What roofcal.report.kit.templates packed."""
    return gzip.decompress(b64decode(packed)).decode()


def unpacked_text(page: Path) -> str:
    """The text of a page, what a browser draws on demand in the place of what is packed."""
    return _PACKED.sub(lambda held: unpack(held[1]), page.read_text(encoding="utf-8"))


def literal_markdown(html: str) -> list[str]:
    """Text between tags in which mark-up of Markdown is left, code left out."""
    texts = re.split(r"<[^>]*>", _NO_PROSE.sub(" ", html))
    return [text.strip() for text in texts if _MARKDOWN.search(text)]
