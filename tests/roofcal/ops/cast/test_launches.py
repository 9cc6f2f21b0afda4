"""Which kernels a cast launches: as published probes recorded."""

import csv

import numpy as np
import pytest

from roofcal.ops.cast.launches import Rule, further_launches, padded_row_columns, reduced_parts
from tests.paths import ROOT

UNITS = 132
PROBES = next(ROOT.glob("reports/published/nvidia-h200/*/tables/nvidia-h200_probe_cast.csv"))
TENSORWISE, DIM0, DIM1 = "fp8_tensorwise", "fp8_rowwise_dim0", "fp8_rowwise_dim1"
BOTH, STRIPS, SQUARES = "fp8_rowwise_both", "fp8_blockwise_1x128", "fp8_blockwise_128x128"


class _H200:
    """What Inductor asks of a device when it cuts a reduction."""

    multi_processor_count = UNITS
    warp_size_or_default = 32
    max_threads_per_multi_processor = 2048
    major = 9


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
    ("rule", "recipe"),
    [
        *(("inductor", recipe) for recipe in (TENSORWISE, STRIPS, f"{STRIPS}_dim1", SQUARES)),
        *(("ours", recipe) for recipe in (TENSORWISE, DIM1, BOTH)),
    ],
)
def test_launches_are_those_that_published_probes_recorded(rule: Rule, recipe: str) -> None:
    recorded = recorded_kernels({"inductor": "torch_compile", "ours": "triton"}[rule], recipe)
    assert len(recorded) >= 14
    assert {sizes: 1 + launches(rule, recipe, sizes) for sizes in recorded} == recorded


@pytest.mark.parametrize("recipe", [DIM0, DIM1, BOTH])
def test_a_loop_of_inductor_is_less_than_a_kernel(recipe: str) -> None:
    recorded = recorded_kernels("torch_compile", recipe)
    assert {sizes: 1 + int(launches("inductor", recipe, sizes)) for sizes in recorded} == recorded
    if recipe == DIM1:  # it cuts columns of few columns alone
        for sizes, kernels in recorded.items():
            assert (launches("inductor", recipe, sizes) == 2) == (kernels == 3), sizes


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
    assert 1 + int(launches("inductor", recipe, sizes)) == kernels


def test_inductor_pads_rows_to_whole_blocks() -> None:
    padded = {640: 1024, 1024: 1024, 1025: 2048, 2048: 2048, 2049: 4096, 7808: 8192}
    cols = np.array(list(padded), dtype=float)
    assert padded_row_columns(cols).tolist() == list(padded.values())


def test_parts_of_a_reduction_are_those_of_inductor() -> None:
    choices = pytest.importorskip("torch._inductor.choices")
    sizes = [(1, 8192), (1000, 1000), (2328, 1924), (4095, 4097), (4096, 4096), (8832, 3200)]
    sizes += [(16384, 7168), (16384, 8192), (8448, 22400), (19840, 14976), (16384, 16384)]
    rows, cols = np.array(sizes, dtype=float).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choices.DeviceProperties, "create", lambda _: _H200)
        parts = [
            int(choices.InductorChoices.reduction_split_factor(None, elements, 1, True))
            for elements in (rows * cols).astype(int).tolist()
        ]
    assert reduced_parts(rows, cols, UNITS).tolist() == np.ceil(rows * cols / parts).tolist()
