"""The published table of fused all-gathers beside ours: theirs as printed, ours by world size."""

import pandas as pd
import pytest

from roofcal.claims.ledgers import load_claims
from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.sections.gathered import published as section
from roofcal.report.sections.gathered.overlap import OP, overlap_table
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.gathers import NINE, WORLD_SIZES, gathered, gathered_run, true_time


@pytest.fixture(scope="module")
def gathers(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    """The made-up run of gathers, judged by the real ledger."""
    run = load_run(gathered_run().write(tmp_path_factory.mktemp("gathers")))
    return analyse(run, h200, claims=load_claims(DEVICES.parent / "claims"))


@pytest.fixture(scope="module")
def table(gathers: Analysis) -> pd.DataFrame:
    return overlap_table(gathers.frames[OP])


def test_the_ledger_has_the_nine_rows_with_their_times(gathers: Analysis) -> None:
    published = section.published_entries(gathers.claims)
    shapes = [tuple(entry.points[axis] for axis in "mnk") for entry in published]
    assert sorted(shapes) == sorted(NINE)
    assert all(entry.points["recipe"] == "bf16" for entry in published)


def test_theirs_stand_beside_ours_of_every_world_size(
    gathers: Analysis, table: pd.DataFrame
) -> None:
    beside = section.beside_published(gathers.claims, table)
    assert [column.key for column in section.columns_beside(table)] == list(beside.columns)
    row = beside[(beside["m"] == 8192) & (beside["n"] == 3584)].iloc[0]
    assert (row["theirs_unfused_us"], row["theirs_fused_us"]) == (1291, 948)
    assert row["theirs"] == pytest.approx(1291 / 948, rel=1e-3)
    for size in WORLD_SIZES:
        fused = true_time(gathered("symm_mem_fused", (8192, 3584, 8192), size))
        sequence = true_time(gathered("nccl_then_gemm", (8192, 3584, 8192), size))
        assert row[f"fused_us_{size}"] == pytest.approx(1e6 * fused)
        assert row[f"speedup_{size}"] == pytest.approx(sequence / fused)


def test_shapes_that_were_not_measured_have_only_the_published_numbers(
    gathers: Analysis, table: pd.DataFrame
) -> None:
    six_shapes = table[table["m"] != 4096]
    beside = section.beside_published(gathers.claims, six_shapes)
    assert len(beside) == len(NINE)
    assert beside["speedup_8"].isna().sum() == 3
    sentences = list(section.published_sentences(gathers.claims, beside, six_shapes))
    assert sentences[-1].startswith("Ours on 8 GPUs, the same 6 shapes: ")


def test_both_geometric_means_stand_in_the_sentences(
    gathers: Analysis, table: pd.DataFrame
) -> None:
    beside = section.beside_published(gathers.claims, table)
    first, *ours = section.published_sentences(gathers.claims, beside, table)
    assert "8 x NVIDIA H100" in first
    assert "1.27\N{MULTIPLICATION SIGN} in geometric mean" in first
    assert len(ours) == len(WORLD_SIZES)


def test_without_claims_there_is_nothing(table: pd.DataFrame) -> None:
    beside = section.beside_published([], table)
    assert beside.empty
    assert list(section.published_sentences([], beside, table)) == []
