"""What every op declares fits together, and its least work by hand."""

import re
from importlib import import_module
from typing import get_args

import numpy as np
import pytest

from roofcal.ops import BY_NAME, FOLDERS, OPS
from roofcal.ops.constants import Part, load_part
from roofcal.ops.regimes import gemm_regime
from roofcal.ops.spec import OpSpec, Unsupported
from tests.paths import ROOT

EVERY_OP = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)


@EVERY_OP
def test_work_is_declared_for_every_recipe_and_no_other(op: OpSpec) -> None:
    shape = dict.fromkeys(op.axes, 64)
    for recipe in op.recipes:
        work = op.work(recipe, shape)
        assert work.flops >= 0
        assert work.dram_bytes >= 0
    assert op.regime(shape)
    with pytest.raises(KeyError):
        op.work("bf61", shape)


@EVERY_OP
def test_products_and_casts_have_the_axes_that_models_of_time_read(op: OpSpec) -> None:
    axes = {"product": ("m", "n", "k"), "cast": ("rows", "cols")}
    assert op.computes is None or op.axes == axes[op.computes]


@EVERY_OP
def test_shapes_are_refused_alike_one_by_one_and_as_vectors(op: OpSpec) -> None:
    sizes = (1, 16, 17, 120, 128, 129)
    for provider in op.every_provider:
        for recipe in op.recipes:
            vectors = op.refused_axes(provider, recipe, dict.fromkeys(op.axes, np.array(sizes)))
            for place, size in enumerate(sizes):
                shape = dict.fromkeys(op.axes, size)
                refused = {name: bool(flags[place]) for name, flags in vectors.items()}
                assert op.refused_axes(provider, recipe, shape) == refused
                assert op.takes(provider, recipe, shape) == (not any(refused.values()))


def test_each_limit_that_a_size_breaks_is_named() -> None:
    op, recipe = BY_NAME["mixed_gemm"], "int4_groupwise_g128"
    assert op.refused_axes("triton_specialised", recipe, {"m": 16, "n": 100, "k": 192}) == {
        ("k", "multiple"): True,
        ("m", "least"): True,
    }
    assert not op.refused_axes("torch_cpu", "bf16", {"m": 1, "n": 1, "k": 1})


def test_every_op_has_a_name_of_its_own_and_providers_on_both_backends() -> None:
    assert len(BY_NAME) == len(OPS)
    for op in OPS:
        assert op.providers_on("cuda")
        assert op.providers_on("cpu")
        assert op.providers_on("tpu") == ()


def test_probes_come_first_so_that_a_broken_device_shows_early() -> None:
    roles = [op.role for op in OPS]
    assert roles == sorted(roles)
    assert {op.role for op in OPS} == {"probe", "study"}


@pytest.mark.parametrize("name", ["gemm", "mixed_gemm"])
def test_a_pair_that_an_op_does_not_have_is_one_that_its_bench_refuses(name: str) -> None:
    op, shape = BY_NAME[name], {"m": 128, "n": 128, "k": 128}
    build = import_module(f"roofcal.ops.{name}.bench").build
    pairs = [(one, recipe) for one in op.every_provider for recipe in op.recipes]
    missing = [pair for pair in pairs if not op.has_pair(*pair)]
    assert ("triton", "bf16") in missing
    assert ("triton", "fp8_axiswise" if name == "gemm" else "int4_groupwise_g128") not in missing
    for provider, recipe in missing:
        with pytest.raises(Unsupported, match=r"no product of recipe|fp8 products only"):
            build(provider, recipe, shape)


# op, recipe, shape -> bytes read, bytes written
LINE, TALL = {"size_bytes": 64}, {"rows": 40, "cols": 70}
CAST, BLOCKS = {"rows": 10, "cols": 20}, {"rows": 300, "cols": 260}
NARROW = {"m": 16, "n": 3584, "k": 8192}
NK, MK, MN = 3584 * 8192, 16 * 8192, 16 * 3584
LEAST_BYTES = [
    ("probe_copy", "read", LINE, 64, 0),
    ("probe_copy", "write", LINE, 0, 64),
    ("probe_copy", "copy", LINE, 64, 64),
    ("probe_launch", "empty", {"grid": 1}, 0, 0),
    ("cast", "fp8_tensorwise", CAST, 2 * 2 * 200, 200 + 4),  # read twice, written once
    ("cast", "fp8_rowwise_dim0", CAST, 2 * 200, 200 + 4 * 10),
    ("cast", "fp8_rowwise_dim1", CAST, 2 * 200, 200 + 4 * 20),
    ("cast", "fp8_rowwise_both", CAST, 2 * 200, 2 * 200 + 4 * 30),  # read once, written twice
    ("cast", "mxfp8_dim0", TALL, 2 * 2800, 2800 + 40 * 3),  # two blocks of 32 and one of 6
    ("cast", "mxfp8_dim1", TALL, 2 * 2800, 2800 + 70 * 2),
    ("cast", "mxfp8_both", TALL, 2 * 2800, 2 * 2800 + 40 * 3 + 70 * 2),
    ("cast", "fp8_blockwise_1x128", BLOCKS, 2 * 78000, 78000 + 4 * 300 * 3),
    ("cast", "fp8_blockwise_1x128_dim1", BLOCKS, 2 * 78000, 78000 + 4 * 260 * 3),
    ("cast", "fp8_blockwise_128x128", BLOCKS, 2 * 78000, 78000 + 4 * 3 * 3),
    ("mixed_gemm", "bf16", NARROW, 2 * NK + 2 * MK, 2 * MN),
    ("mixed_gemm", "fp8_tensorwise", NARROW, NK + 4 + MK + 4, 2 * MN),
    ("mixed_gemm", "fp8_weight_only", NARROW, NK + 4 * 3584 + 2 * MK, 2 * MN),
    ("mixed_gemm", "int4_groupwise_g32", NARROW, NK // 2 + 2 * NK // 32 + 2 * MK, 2 * MN),
    ("mixed_gemm", "int4_groupwise_g64", NARROW, NK // 2 + 2 * NK // 64 + 2 * MK, 2 * MN),
    ("mixed_gemm", "int4_groupwise_g128", NARROW, NK // 2 + 2 * NK // 128 + 2 * MK, 2 * MN),
    ("mixed_gemm", "int4_groupwise_g64_asymmetric", NARROW, NK // 2 + NK // 16 + 2 * MK, 2 * MN),
]


@pytest.mark.parametrize(("op", "recipe", "shape", "read", "written"), LEAST_BYTES)
def test_the_least_bytes_by_hand(
    op: str, recipe: str, shape: dict[str, int], read: int, written: int
) -> None:
    work = BY_NAME[op].work(recipe, shape)
    assert (work.dram_read_bytes, work.dram_write_bytes) == (read, written)
    assert work.flops == (2 * 16 * NK if op == "mixed_gemm" else 0)


@pytest.mark.parametrize(
    ("op", "small", "large"),
    [
        ("probe_copy", {"size_bytes": (1 << 26) - 1}, {"size_bytes": 1 << 26}),
        ("probe_link", {"size_bytes": (1 << 20) - 1}, {"size_bytes": 1 << 20}),
        ("cast", {"rows": 4096, "cols": 4095}, {"rows": 4096, "cols": 4096}),
    ],
)
def test_where_large_begins(op: str, small: dict[str, int], large: dict[str, int]) -> None:
    assert [BY_NAME[op].regime(shape) for shape in (small, large)] == ["small", "large"]


@pytest.mark.parametrize(
    ("m", "n", "k", "regime"),
    [
        (1, 4096, 4096, "decode"),
        (64, 4096, 4096, "decode"),
        (63, 4096, 4096, "decode"),
        (4096, 64, 4096, "decode"),
        (65, 4096, 4096, "ragged"),
        (4096, 4095, 4096, "ragged"),
        (4096, 4096, 4100, "ragged"),
        (8192, 8192, 1024, "skinny_k"),
        (4096, 4096, 1024, "skinny_k"),
        (2048, 8192, 1024, "mid"),
        (1024, 1024, 1024, "small"),
        (1040, 1040, 1040, "mid"),
        (4096, 4096, 4096, "mid"),
        (4112, 4112, 4112, "large"),
    ],
)
def test_a_product_belongs_to_the_first_regime_that_holds(
    m: int, n: int, k: int, regime: str
) -> None:
    assert gemm_regime(m, n, k) == BY_NAME["gemm"].regime({"k": k, "n": n, "m": m}) == regime


def test_every_folder_of_an_op_is_listed_and_holds_known_parts_and_what_these_import() -> None:
    folders = {path.parent.name for path in (ROOT / "roofcal/ops").glob("*/spec.py")}
    assert folders == set(FOLDERS) == {op.folder for op in OPS}
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
    assert load_part(BY_NAME["linear"], "fit") is None
