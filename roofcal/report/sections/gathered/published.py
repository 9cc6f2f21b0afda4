"""A published table of fused all-gathers beside ours, by world size.

It is made of the claims on the op whose source printed its times row by row.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pandas as pd

from roofcal.claims.ledgers import Entry
from roofcal.ops.all_gather_matmul import spec
from roofcal.report.data.claims import Verdict
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import SIZES, number, ratio
from roofcal.report.kit.numbers import MICROSECONDS, times
from roofcal.report.sections.gathered.overlap import GRAPH, OP, geometric_mean

_SHAPE: Final = ("m", "n", "k")
_PRINTED: Final = {"unfused_us": "in sequence", "fused_us": "fused"}


def _microseconds(key: str, label: str) -> Column:
    """A column of numbers that are in microseconds already, as the source printed them."""
    return number(key, label, MICROSECONDS, 1, 4)


def published_entries(claims: Sequence[Verdict]) -> list[Entry]:
    """Claims on the fused op for which the source printed its times, row by row."""
    entries = [verdict.entry for verdict in claims]
    return [
        entry
        for entry in entries
        if entry.test is not None and entry.test.op == OP and set(_PRINTED) <= set(entry.printed)
    ]


def beside_published(claims: Sequence[Verdict], table: pd.DataFrame) -> pd.DataFrame:
    """Their times and speed-up, and ours of the same shape captured in bf16 on every world size.

    Shapes without a time of ours have theirs alone.

    Args:
        claims: verdicts on the ledger.
        table: that of overlap_table.
    """
    ours = _captured_by_ours(table)
    rows = [_row(entry, ours) for entry in published_entries(claims)]
    return pd.DataFrame(rows).reindex(columns=[column.key for column in columns_beside(table)])


def _row(entry: Entry, ours: pd.DataFrame) -> dict[str, Any]:
    row: dict[str, Any] = {axis: entry.points[axis] for axis in _SHAPE}
    row |= {f"theirs_{key}": entry.printed[key] for key in _PRINTED}
    row["theirs"] = entry.value
    same = ours[ours["recipe"] == entry.points["recipe"]]
    for axis in _SHAPE:
        same = same[same[axis] == entry.points[axis]]
    for own in same.to_dict("records"):
        size = own["world_size"]
        row[f"sequence_us_{size}"] = own["sequence_s"] * 1e6
        row[f"fused_us_{size}"] = own["median_s"] * 1e6
        row[f"speedup_{size}"] = own["speedup"]
    return row


def columns_beside(table: pd.DataFrame) -> list[Column]:
    """Speed-ups, then times, of every world size on which ours was captured."""
    sizes = _world_sizes(table)
    columns = [*SIZES, ratio("theirs", "theirs")]
    columns += [ratio(f"speedup_{size}", f"ours, {size} GPUs") for size in sizes]
    columns += [_microseconds(f"theirs_{k}", f"theirs, {name}") for k, name in _PRINTED.items()]
    for size in sizes:
        columns.append(_microseconds(f"sequence_us_{size}", f"{size} GPUs, in sequence"))
        columns.append(_microseconds(f"fused_us_{size}", f"{size} GPUs, fused"))
    return columns


def _captured_by_ours(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["provider"] == spec.OURS) & (table["mode"] == GRAPH)]


def _world_sizes(table: pd.DataFrame) -> list[int]:
    return sorted({int(size) for size in _captured_by_ours(table)["world_size"]})


def published_sentences(
    claims: Sequence[Verdict], beside: pd.DataFrame, table: pd.DataFrame
) -> Iterator[str]:
    """Whose table it is, and both geometric means; nothing without a published table.

    beside: the rows of beside_published.
    """
    entries = published_entries(claims)
    if not entries:
        return
    first = entries[0]
    theirs = times(geometric_mean(beside["theirs"]))
    yield f"{first.ledger.title}, on {first.hardware}: {theirs} in geometric mean."
    for size in _world_sizes(table):
        own = beside[f"speedup_{size}"].dropna()
        if len(own):
            yield (
                f"Ours on {size} GPUs, the same {len(own)} shapes: {times(geometric_mean(own))} in "
                "geometric mean."
            )
