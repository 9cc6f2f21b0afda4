"""Which kernels a cast launches: as kernels.cast does, and as published probes recorded."""

import csv

import numpy as np
import pytest

from kernels.cast import columns, rows, short_columns, tensorwise
from roofcal.ops.cast.launches import Rule, further_launches, has_long_columns, passes
from tests.paths import ROOT

UNITS = 132
PROBES = next(ROOT.glob("reports/published/nvidia-h200/*/tables/nvidia-h200_probe_cast.csv"))


def launches(rule: Rule, recipe: str, sizes: tuple[int, int]) -> float:
    m, n = (np.array([float(size)]) for size in sizes)
    return float(further_launches(rule, recipe, m, n, UNITS)[0])


def recorded_kernels(provider: str, recipe: str) -> dict[tuple[int, int], int]:
    """Sizes -> kernels of published probes; one that fills with zeros is a launch too."""
    with PROBES.open(newline="") as file:
        return {
            (int(row["rows"]), int(row["cols"])): len(row["kernel_names"].split(";"))
            for row in csv.DictReader(file)
            if (row["provider"], row["recipe"], row["status"]) == (provider, recipe, "ok")
        }


@pytest.mark.parametrize(
    ("rule", "provider", "recipe"),
    [
        ("inductor", "torch_compile", "fp8_tensorwise"),
        ("inductor", "torch_compile", "fp8_blockwise_1x128"),
        ("inductor", "torch_compile", "fp8_blockwise_1x128_dim1"),
        ("inductor", "torch_compile", "fp8_blockwise_128x128"),
        ("ours", "triton", "fp8_tensorwise"),
        ("ours", "triton", "fp8_rowwise_dim1"),
        ("ours", "triton", "fp8_rowwise_both"),
    ],
)
def test_launches_are_those_that_published_probes_recorded(
    rule: Rule, provider: str, recipe: str
) -> None:
    recorded = recorded_kernels(provider, recipe)
    assert len(recorded) >= 28
    assert {sizes: 1 + launches(rule, recipe, sizes) for sizes in recorded} == recorded


def test_inductor_cuts_columns_of_few_columns_alone() -> None:
    recorded = recorded_kernels("torch_compile", "fp8_rowwise_dim1")
    for sizes, kernels in recorded.items():
        assert (launches("inductor", "fp8_rowwise_dim1", sizes) == 2) == (kernels == 3), sizes


def test_our_limits_are_those_of_the_kernels() -> None:
    how = short_columns.SHORT_COLUMNS
    for rows_of, most, ragged in (
        (how.most_rows, how.most_elements, 0),
        (how.most_ragged_rows - 1, how.most_ragged_elements, 1),
    ):
        last = most // rows_of
        sizes = np.array([[rows_of, 8], [rows_of, last], [rows_of, last + 1]], dtype=float)
        assert has_long_columns(*sizes.T).tolist() == [False, False, True], ragged
    assert launches("ours", "fp8_tensorwise", (1, tensorwise.ONE_PROGRAM.block)) == 0
    assert launches("ours", "fp8_tensorwise", (1, tensorwise.ONE_PROGRAM.block + 1)) == 1
    row = rows.ROWS.largest_block
    assert launches("ours", "fp8_rowwise_dim0", (8, row)) == 0
    assert launches("ours", "fp8_rowwise_dim0", (8, row + 1)) == 1
    beside = short_columns.ROWS_BESIDE_MOST_ELEMENTS
    assert launches("ours", "fp8_rowwise_both", (1024, beside // 1024)) == 0
    assert launches("ours", "fp8_rowwise_both", (1024, beside // 1024 + 1)) == 1
    together = columns.BOTH_LEAST_ELEMENTS
    sizes = np.array([[8192, together // 8192], [8192, together // 8192 - 1]], dtype=float)
    assert np.argsort(passes("ours", "fp8_rowwise_both", *sizes.T)).tolist() == [0, 1]
