"""What the ops say about themselves for the report: `PAGE` of roofcal/ops/<op>/model.py.

And the captions of figures in their words, as Snakemake's own report shows them.
"""

from functools import cache
from pathlib import Path
from typing import Final

from roofcal.ops import BY_NAME, FOLDERS, OPS
from roofcal.ops.constants import Constant, OpPage, load_part
from roofcal.report.kit.templates import caption_text

FOLDER_OF_SECTIONS: Final = Path(__file__).parents[1] / "sections"


@cache
def page_of(op: str) -> OpPage:
    """The page of an op; the default one for an op without, and for a name of no op.

    A probe shares the folder of the op that it calibrates, and has a page of its own in it:
    PROBE_PAGE.
    """
    spec = BY_NAME.get(op)
    module = load_part(spec, "model") if spec else None
    name = "PROBE_PAGE" if spec and spec.calibrates else "PAGE"
    page: OpPage = getattr(module, name, OpPage())
    return page


def title_of(op: str) -> str:
    """The op as a heading has it."""
    return page_of(op).title or op


def caption_words(op: str) -> dict[str, str]:
    """Name in the captions of figures -> what stands there for an op."""
    return {
        "title": title_of(op),
        "time_includes": page_of(op).time_includes,
        "casts": casts_note(op),
    }


def casts_note(op: str) -> str:
    """Whether times of an op include casts, behind a heading: ", with casts"; "" where none are."""
    note = page_of(op).time_note
    return f", {note}" if note else ""


def headline_op() -> str:
    """The op that the first page is about."""
    (name,) = (op for op in FOLDERS if page_of(op).is_headline)
    return name


def health_ops() -> list[str]:
    """Ops whose times tell a healthy card from a slow one."""
    return [op.name for op in OPS if page_of(op.name).health]


@cache
def constant_texts(prefix: str) -> dict[str, Constant]:
    """What each constant is, of those whose names begin with `prefix`."""
    texts: dict[str, Constant] = {}
    for op in FOLDERS:
        page = page_of(op)
        if prefix == (op if page.constants_prefix is None else page.constants_prefix):
            texts |= page.constants
    return texts


def constant_ranks() -> dict[str, int]:
    """Last part of a constant's name -> its place among the constants of one provider and recipe.

    Ops may give one name to different constants; such a name has the place of the last of them.
    """
    names = [name for op in FOLDERS for name in page_of(op).constants]
    return {name: rank for rank, name in enumerate(names)}


def glossary_ops() -> dict[str, str]:
    """Op -> what it computes, for ops that say so."""
    return {op: page_of(op).meaning for op in FOLDERS if page_of(op).meaning}


def caption_files() -> dict[str, Path]:
    """Key of every figure -> its caption, <section folder>/<key>.md."""
    files = sorted(FOLDER_OF_SECTIONS.glob("*/*.md"))
    return {path.stem: path for path in files if not path.stem.endswith(".csv")}


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
