"""Which kernels a cast launches: as published probes recorded."""

import csv

import numpy as np
import pytest

from roofcal.ops.cast.launches import inductor_launches, padded_row_columns
from tests.paths import ROOT

UNITS = 132
PROBES = next(ROOT.glob("reports/published/nvidia-h200/*/tables/nvidia-h200_probe_cast.csv"))
TENSORWISE, DIM0, DIM1 = "fp8_tensorwise", "fp8_rowwise_dim0", "fp8_rowwise_dim1"
BOTH, STRIPS, SQUARES = "fp8_rowwise_both", "fp8_blockwise_1x128", "fp8_blockwise_128x128"


def launches(recipe: str, sizes: tuple[int, int]) -> float:
    m, n = (np.array([float(size)]) for size in sizes)
    return float(inductor_launches(recipe, m, n, UNITS)[0])


def recorded_kernels(recipe: str) -> dict[tuple[int, int], int]:
    """Sizes -> kernels of published probes; one that fills with zeros is a launch too."""
    with PROBES.open(newline="") as file:
        return {
            (int(row["rows"]), int(row["cols"])): len(row["kernel_names"].split(";"))
            for row in csv.DictReader(file)
            if (row["provider"], row["recipe"], row["status"]) == ("torch_compile", recipe, "ok")
        }


@pytest.mark.parametrize("recipe", [TENSORWISE, STRIPS, f"{STRIPS}_dim1", SQUARES])
def test_launches_are_those_that_published_probes_recorded(recipe: str) -> None:
    recorded = recorded_kernels(recipe)
    assert len(recorded) >= 14
    assert {sizes: 1 + launches(recipe, sizes) for sizes in recorded} == recorded


@pytest.mark.parametrize("recipe", [DIM0, DIM1, BOTH])
def test_a_loop_of_inductor_is_less_than_a_kernel(recipe: str) -> None:
    recorded = recorded_kernels(recipe)
    assert {sizes: 1 + int(launches(recipe, sizes)) for sizes in recorded} == recorded
    if recipe == DIM1:  # it cuts columns of few columns alone
        for sizes, kernels in recorded.items():
            assert (launches(recipe, sizes) == 2) == (kernels == 3), sizes


@pytest.mark.parametrize(
    ("recipe", "sizes", "kernels"),
    [
        (DIM0, (1, 12288), 3),
        (DIM0, (512, 18432), 1),
        (DIM1, (1, 12288), 1),
        (DIM1, (4, 6144), 2),
        (BOTH, (1, 8192), 1),
        (BOTH, (1, 12288), 3),
        (BOTH, (4, 6144), 3),
        (f"{STRIPS}_dim1", (1, 12288), 1),
        (SQUARES, (1, 12288), 2),
    ],
)
def test_casts_of_few_rows_launch_what_an_h200_recorded(
    recipe: str, sizes: tuple[int, int], kernels: int
) -> None:
    assert 1 + int(launches(recipe, sizes)) == kernels


def test_inductor_pads_rows_to_whole_blocks() -> None:
    padded = {640: 1024, 1024: 1024, 1025: 2048, 2048: 2048, 2049: 4096, 7808: 8192}
    cols = np.array(list(padded), dtype=float)
    assert padded_row_columns(cols).tolist() == list(padded.values())
