"""The pages of the families of kernels say what the published tables say."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from roofcal.report.kit.numbers import shape_text
from tests.paths import ROOT
from tools.method_numbers import tables_of_devices
from tools.write_kernel_tables import (
    FAMILIES,
    TFLOPS,
    Comparison,
    family_page,
    memory_table,
    point_table,
    ratio_table,
    ratios,
    readme_of,
    shown_sweeps,
)

PRODUCTS = Comparison(
    "gemm", ("triton",), (("cublaslt", ""), ("cublaslt", "bf16")), ("square",), TFLOPS, by="m"
)


def points(*rows: tuple[str, str, int, float]) -> pd.DataFrame:
    """Points of (provider, recipe, side of a cube, seconds)."""
    return pd.DataFrame(
        {
            "op": "gemm",
            "provider": provider,
            "recipe": recipe,
            **dict.fromkeys("mnk", side),
            "world_size": 1,
            "median_s": seconds,
            "achieved_flops_per_s": 2 * side**3 / seconds,
            "sweeps": "a;square",
        }
        for provider, recipe, side, seconds in rows
    )


FRAME = points(
    ("triton", "fp8_axiswise", 512, 1e-6),
    ("triton", "fp8_axiswise", 1024, 8e-6),
    ("cublaslt", "fp8_axiswise", 512, 2e-6),
    ("cublaslt", "fp8_axiswise", 1024, 4e-6),
    ("cublaslt", "bf16", 512, 3e-6),
)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_of_a_family_is_up_to_date(family: str) -> None:
    page = readme_of(family).read_text(encoding="utf-8")
    fresh = family_page(family, *tables_of_devices())
    assert page == fresh, "run: python -m tools.write_kernel_tables"


def test_every_family_of_kernels_has_a_page() -> None:
    folders = {path.parent.name for path in (ROOT / "kernels").glob("*/__init__.py")}
    assert folders - set(FAMILIES) == {"common"}


def test_ratios_above_one_are_ours_being_faster_on_the_same_shape() -> None:
    rows = ratios(FRAME, PRODUCTS).set_index(["peer", "m"])["ratio"]
    expected = {("cublaslt", 512): 2, ("cublaslt", 1024): 0.5, ("cublaslt bf16", 512): 3}
    assert rows.to_dict() == pytest.approx(expected)


def test_a_group_shows_its_geometric_mean_its_least_and_its_most() -> None:
    frame = pd.concat([FRAME, FRAME.assign(k=64, median_s=FRAME["median_s"] * [1, 1, 4, 1, 1])])
    _, _, first, second = ratio_table(ratios(frame, PRODUCTS), PRODUCTS)
    by_hand = "4.00 (2.00 to 8.00) | 3.00 (3.00 to 3.00)"
    assert first == f"| fp8_axiswise | triton | 257 to 512 | 2 | {by_hand} |"
    assert second == "| fp8_axiswise | triton | 513 to 1024 | 2 | 0.50 (0.50 to 0.50) |  |"


def test_a_shape_shows_ours_and_the_fastest_peer_in_a_row_for_each_of_our_providers() -> None:
    _, _, first, second = point_table(FRAME, PRODUCTS)
    assert first == f"| {shape_text((512, 512, 512))} | 268.4 (134.2) |"
    assert second.endswith("| 268.4 (536.9) |")
    both = replace(PRODUCTS, ours=("triton", "triton_chained"))
    chained = points(("triton_chained", "fp8_axiswise", 512, 0.5e-6))
    heads, _, *rows = point_table(pd.concat([FRAME, chained]), both)
    assert heads == "| m x n x k | provider | fp8_axiswise |"
    assert [line.split(" | ")[1:] for line in rows] == [
        ["triton", "268.4 (134.2) |"],
        ["triton_chained", "536.9 (134.2) |"],
        ["triton", "268.4 (536.9) |"],
    ]


def test_a_smaller_study_shows_its_part_of_the_sweep() -> None:
    smaller = FRAME.assign(sweeps=["square_standard", "squares", *["square_standard"] * 3])
    assert shown_sweeps(smaller, PRODUCTS) == ["square_standard"]
    _, _, *rows = point_table(smaller, PRODUCTS)
    assert len(rows) == 1
    several = replace(PRODUCTS, shown=("square", "squares"))
    assert shown_sweeps(smaller, several) == ["square_standard", "squares"]


def test_another_device_shows_the_ops_that_it_has(tmp_path: Path) -> None:
    first = tmp_path / "nvidia-h200" / "environment" / "tables"
    other = tmp_path / "nvidia-h100-sxm" / "another" / "tables"
    for folder in (first, other):
        folder.mkdir(parents=True)
    FRAME.assign(
        status="ok", method="graph", cache="cold", distribution="normal", repeat=0, regime="mid"
    ).to_csv(other / "nvidia-h100-sxm_gemm.csv")
    page = family_page("gemm", first, other)
    assert "at its end nvidia-h100-sxm, `another`." in page
    assert "## Op `gemm`\n\nNot published yet" in page
    assert "## Op `gemm` on nvidia-h100-sxm\n\n| recipe |" in page
    assert "nvidia-h100" not in family_page("streams", first, other)


def test_memory_is_shown_of_all_who_know_it() -> None:
    frame = points(
        ("triton", "fp8_axiswise", 512, 1e-6),
        ("cublaslt", "fp8_axiswise", 512, 2e-6),
        ("cublaslt", "bf16", 512, 3e-6),
        ("cublaslt", "bf16", 1024, 3e-6),
    ).assign(peak_bytes=[1.5e9, 2e9, 3e9, float("nan")])
    cube = shape_text((512, 512, 512))
    assert memory_table(frame, PRODUCTS) == [
        "| m x n x k | provider | bf16 | fp8_axiswise |",
        "| --- | --- | --- | --- |",
        f"| {cube} | cublaslt | 3.00 | 2.00 |",
        f"| {cube} | triton |  | 1.50 |",
    ]
    assert memory_table(frame.drop(columns="peak_bytes"), PRODUCTS) == []
    assert memory_table(frame.assign(peak_bytes=None), PRODUCTS) == []
