"""Captions of figures as Snakemake's own report shows them: workflow/rules/report.smk asks here."""

from pathlib import Path
from typing import Final

from roofcal.core.paths import CHECKOUT
from roofcal.ops import FOLDERS
from roofcal.report.data.op_pages import caption_words
from roofcal.report.kit.writer import caption_text

_SECTIONS: Final = CHECKOUT / "roofcal" / "report" / "sections"
_TABLE: Final = ".csv"  # <file>.csv.md describes the columns of a table


def caption_files() -> dict[str, Path]:
    """Key of every figure -> its caption, <section folder>/<key>.md."""
    files = sorted(_SECTIONS.glob("*/*.md"))
    return {path.stem: path for path in files if not path.stem.endswith(_TABLE)}


def figure_title(figure: str, op: str) -> str:
    """The title of a figure of an op; raises KeyError for an unknown figure."""
    return caption_text(caption_files()[figure], caption_words(op))[0]


def all_captions() -> dict[str, str]:
    """reStructuredText of every caption: "<figure>.<op>", or "<figure>" where ops do not differ."""
    captions: dict[str, str] = {}
    for figure, path in caption_files().items():
        texts = {op: caption_text(path, caption_words(op))[1] for op in FOLDERS}
        differ = len(set(texts.values())) > 1
        captions |= {f"{figure}.{op}" if differ else figure: text for op, text in texts.items()}
    return {name: text.replace("`", "``") for name, text in captions.items()}
