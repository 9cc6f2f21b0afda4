"""Which modules of an op's folder are found by their names."""

from typing import get_args

from roofcal.ops import BY_NAME, FOLDERS, OPS
from roofcal.ops.parts import Part, load_part
from tests.paths import ROOT


def test_every_folder_of_an_op_is_listed() -> None:
    folders = {path.parent.name for path in (ROOT / "roofcal/ops").glob("*/spec.py")}

    assert folders == set(FOLDERS) == {op.folder for op in OPS}


def test_the_folder_of_an_op_holds_its_spec_its_bench_and_known_parts_alone() -> None:
    allowed = {"__init__", "spec", "bench", *get_args(Part)}
    for folder in FOLDERS:
        modules = {path.stem for path in (ROOT / "roofcal/ops" / folder).glob("*.py")}
        assert {"__init__", "spec", "bench"} <= modules <= allowed, folder


def test_a_probe_shares_the_parts_of_the_op_that_it_calibrates() -> None:
    model = load_part(BY_NAME["probe_math"], "model")

    assert model is not None
    assert model is load_part(BY_NAME["gemm"], "model")
    assert model.__name__ == "roofcal.ops.gemm.model"


def test_a_part_that_a_folder_lacks_is_none() -> None:
    assert load_part(BY_NAME["probe_launch"], "predict") is None
