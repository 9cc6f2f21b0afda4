"""The seed's published table of fused all-gathers beside ours, by world size."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pandas as pd

from roofcal.claims.ledgers import Entry
from roofcal.ops.all_gather_matmul import spec
from roofcal.report.data.claims import Verdict
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, ratio
from roofcal.report.kit.numbers import significant, times
from roofcal.report.sections.gathered.overlap import GRAPH, OP, geometric_mean

_SHAPE: Final = ("m", "n", "k")
_PRINTED: Final = {"unfused_us": "in sequence", "fused_us": "fused"}


def _us(key: str, label: str) -> Column:
    return Column(
        key=key,
        label=label,
        kind="number",
        unit="\N{MICRO SIGN}s",
        show=lambda v: significant(v, 4),
    )


def published(claims: Sequence[Verdict]) -> list[Entry]:
    """Claims on the fused op for which the source printed its times, row by row."""
    entries = [verdict.entry for verdict in claims]
    return [
        entry
        for entry in entries
        if entry.test is not None and entry.test.op == OP and set(_PRINTED) <= set(entry.printed)
    ]


def beside(claims: Sequence[Verdict], table: pd.DataFrame) -> pd.DataFrame:
    """Their times and speed-up, and ours of the same shape captured in bf16 on every world size.

    table: gathered_section.overlap. Shapes without a time of ours have theirs alone.
    """
    ours = table[(table["provider"] == spec.OURS) & (table["mode"] == GRAPH)]
    rows = [_row(entry, ours) for entry in published(claims)]
    keys = [column.key for column in columns_of(table)]
    return pd.DataFrame(rows).reindex(columns=keys)


def _row(entry: Entry, ours: pd.DataFrame) -> dict[str, Any]:
    row: dict[str, Any] = {axis: entry.points[axis] for axis in _SHAPE}
    row |= {f"theirs_{key}": entry.printed[key] for key in _PRINTED}
    row["theirs"] = entry.value
    mine = ours[ours["recipe"] == entry.points["recipe"]]
    for axis in _SHAPE:
        mine = mine[mine[axis] == entry.points[axis]]
    for found in mine.to_dict("records"):
        size = found["world_size"]
        row[f"sequence_us_{size}"] = found["sequence_s"] * 1e6
        row[f"fused_us_{size}"] = found["median_s"] * 1e6
        row[f"speedup_{size}"] = found["speedup"]
    return row


def columns_of(table: pd.DataFrame) -> list[Column]:
    """Columns of `beside`: speed-ups, then times, of every world size that ours was captured on."""
    sizes = _world_sizes(table)
    found = [*(count(axis, axis) for axis in _SHAPE), ratio("theirs", "theirs")]
    found += [ratio(f"speedup_{size}", f"ours, {size} GPUs") for size in sizes]
    found += [_us(f"theirs_{key}", f"theirs, {label}") for key, label in _PRINTED.items()]
    for size in sizes:
        found.append(_us(f"sequence_us_{size}", f"{size} GPUs, in sequence"))
        found.append(_us(f"fused_us_{size}", f"{size} GPUs, fused"))
    return found


def _world_sizes(table: pd.DataFrame) -> list[int]:
    ours = table[(table["provider"] == spec.OURS) & (table["mode"] == GRAPH)]
    return sorted({int(size) for size in ours["world_size"]})


def sentences(claims: Sequence[Verdict], made: pd.DataFrame, table: pd.DataFrame) -> Iterator[str]:
    """Whose table it is, and both geometric means; nothing without one."""
    entries = published(claims)
    if not entries:
        return
    first = entries[0]
    theirs = times(geometric_mean(made["theirs"]))
    yield f"{first.ledger.title}, on {first.hardware}: {theirs} in geometric mean."
    for size in _world_sizes(table):
        own = made[f"speedup_{size}"].dropna()
        if len(own):
            yield (
                f"Ours on {size} GPUs, the same {len(own)} shapes: {times(geometric_mean(own))} in "
                "geometric mean."
            )
