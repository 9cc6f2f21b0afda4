"""Which modules of an op's folder are found by their names."""

import re
from typing import get_args

from roofcal.ops import BY_NAME, FOLDERS, OPS
from roofcal.ops.constants import Part, load_part
from tests.paths import ROOT


def test_every_folder_of_an_op_is_listed() -> None:
    folders = {path.parent.name for path in (ROOT / "roofcal/ops").glob("*/spec.py")}

    assert folders == set(FOLDERS) == {op.folder for op in OPS}


def test_the_folder_of_an_op_holds_its_spec_its_bench_known_parts_and_what_these_import() -> None:
    for folder in FOLDERS:
        files = list((ROOT / "roofcal/ops" / folder).glob("*.py"))
        imported = f"from roofcal.ops.{folder}.(\\w+) import"
        details = {name for file in files for name in re.findall(imported, file.read_text())}
        modules = {file.stem for file in files}
        expected = {"__init__", "spec", "bench"}
        assert expected <= modules <= expected | set(get_args(Part)) | details, folder


def test_a_probe_shares_the_parts_of_the_op_that_it_calibrates() -> None:
    model = load_part(BY_NAME["probe_math"], "model")

    assert model is not None
    assert model is load_part(BY_NAME["gemm"], "model")
    assert model.__name__ == "roofcal.ops.gemm.model"


def test_a_part_that_a_folder_lacks_is_none() -> None:
    assert load_part(BY_NAME["probe_launch"], "predict") is None
