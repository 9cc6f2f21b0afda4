"""The section on all-gathers with their product, and on the links between devices."""

from collections.abc import Iterator
from typing import Final

from roofcal.report.kit.blocks import Block, Prose
from roofcal.report.kit.writer import Pen, absent
from roofcal.report.sections.gathered import links
from roofcal.report.sections.gathered import overlap as gathered
from roofcal.report.sections.gathered import published as published_gathers
from roofcal.report.sections.gathered.figures import draw_hidden, draw_ranks, draw_speedup
from roofcal.report.sections.gathered.link_figure import draw_links

TITLE: Final = "All-gather fused with the product"


def blocks(pen: Pen) -> Iterator[Block]:
    """Speed-up, what is hidden, ranks, links; a sentence where a GPU has no such rows.

    Nothing for a CPU without them.
    """
    a = pen.a
    frame = a.frames.get(gathered.OP)
    if frame is not None and len(gathered.timed(frame)):
        yield from _gathers(pen)
    elif a.run.environment.vendor != "cpu":
        yield absent(gathered.NOT_MEASURED)
    yield from _links(pen)


def _gathers(pen: Pen) -> Iterator[Block]:
    frame = pen.a.frames[gathered.OP]
    table = gathered.overlap(frame)
    fused = table[table["provider"].isin(gathered.FUSED)]
    if fused.empty:
        yield absent(gathered.NOT_FUSED)
    for sentence in gathered.answer(table):
        yield Prose(text=sentence)
    unpredicted = gathered.unpredicted(frame, pen.a.run.calibration)
    if unpredicted:
        yield absent(unpredicted)
    summed = gathered.summary(table)
    if len(summed):
        name = "Speed-up over NCCL and product, captured and eager"
        yield pen.table("gathered-summary", name, summed, gathered.SUMMARY, gathered.SOURCE)
    yield from pen.drawn([draw_speedup(table), draw_hidden(table)], gathered.SOURCE)
    if len(table):
        name = "All-gather and product: in sequence, fused, and what bounds both"
        yield pen.table("gathered", name, table, gathered.OVERLAP, gathered.SOURCE)
    yield from _published(pen)
    yield from pen.drawn([draw_ranks(frame)])
    apart = gathered.ranks_table(frame)
    if len(apart):
        name = "Slowest rank over the fastest, less 1"
        yield pen.table("gathered-ranks", name, apart, gathered.RANKS)


def _published(pen: Pen) -> Iterator[Block]:
    """The table of the source that published one, beside ours."""
    claims = pen.a.claims
    table = gathered.overlap(pen.a.frames[gathered.OP])
    made = published_gathers.beside(claims, table)
    if made.empty or not table["provider"].isin(gathered.FUSED).any():
        return
    for sentence in published_gathers.sentences(claims, made, table):
        yield Prose(text=sentence)
    name = "A published table beside ours, bf16"
    wanted = published_gathers.columns_of(table)
    yield pen.table("gathered-published", name, made, wanted, gathered.SOURCE)


def _links(pen: Pen) -> Iterator[Block]:
    a = pen.a
    fitted = links.constants(a.run.calibration)
    rows = links.curves(a.frames.get(links.OP))
    yield from pen.drawn([draw_links(rows, fitted, a.spec)])
    if len(fitted):
        name = "Links between devices: rate and latency, fitted per collective and world size"
        yield pen.table("links", name, fitted, links.CONSTANTS, "constants.csv")
