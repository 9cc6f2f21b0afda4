"""What the ops say about themselves for the report: `PAGE` of roofcal/ops/<op>/model.py."""

from functools import cache

from roofcal.ops import BY_NAME, FOLDERS, OPS
from roofcal.ops.constants import load_part
from roofcal.ops.declarations import Constant, OpPage


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
    return {"title": title_of(op), "time_includes": page_of(op).time_includes}


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
