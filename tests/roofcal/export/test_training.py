"""torchao's own functions and Calculon's parsers take the files and work with our rates."""

import ast
import json
from typing import Any

import pytest

from roofcal.export.formats import write_calculon, write_torchao
from tests.roofcal.export.subjects import h200, measured, without, without_fp8

BF16 = measured("gemm.cublaslt.bf16.ceiling_flops_per_s")
FP8 = measured("gemm.cublaslt.fp8_axiswise.ceiling_flops_per_s")
COPY = measured("dram_copy_bytes_per_s")
LARGE = 1 << 16  # bound by math: 2 n / 8 FLOP per byte is a multiple of any card's ridge

# --- torchao --------------------------------------------------------------------------------------


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torchao's module with our entry in its table."""
    pytest.importorskip("torchao", reason="torchao of the dev extra is not installed: make env")
    from torchao.testing.training import roofline_utils

    table = dict(roofline_utils.gpu_name_to_specs)
    monkeypatch.setattr(roofline_utils, "gpu_name_to_specs", table)
    table.update(ast.literal_eval(write_torchao(h200())))
    return roofline_utils


def product(theirs: Any, dtype: Any, size: int) -> float:
    seconds = theirs.get_individual_gemm_time_sympy(size, size, size, dtype, None, "NVIDIA H200")
    return float(seconds)


def test_torchao_finds_the_card_by_the_name_that_torch_prints(theirs: Any) -> None:
    specs = theirs.get_specs("NVIDIA H200")
    assert set(specs) <= set(theirs.gpu_name_to_specs["NVIDIA B200"])
    assert set(specs) >= set(theirs.gpu_name_to_specs["NVIDIA H100"])


def test_its_large_products_take_our_measured_rates(theirs: Any) -> None:
    import torch

    flops = 2.0 * LARGE**3
    assert product(theirs, torch.bfloat16, LARGE) == pytest.approx(flops / BF16, rel=1e-12)
    assert product(theirs, torch.float8_e4m3fn, LARGE) == pytest.approx(flops / FP8, rel=1e-12)


def test_its_casts_take_our_measured_bandwidth(theirs: Any) -> None:
    specs = theirs.get_specs("NVIDIA H200")
    amax, nothing, cast = theirs.get_tensor_memory_traffic_ovhd_s(
        specs, 8192, 8192, "input", "tensorwise", None
    )
    assert float(amax) == pytest.approx(2 * 8192**2 / COPY, rel=1e-12)
    assert float(nothing) == theirs.KERNEL_LAUNCH_OVERHEAD_SEC
    assert float(cast) == pytest.approx(4 * 8192**2 / COPY, rel=1e-12)


def test_its_linear_forward_and_backward_runs_for_each_recipe(theirs: Any) -> None:
    import torch

    m, k, n = theirs.sympy.symbols("M K N", positive=True)
    for recipe in ("tensorwise", "rowwise", "rowwise_with_gw_hp"):
        dtype, name = torch.float8_e4m3fn, "NVIDIA H200"
        products = theirs.get_gemm_time_sympy(m, k, n, dtype, recipe, None, name)
        casts = theirs.get_float8_mem_sympy(m, k, n, recipe, None, False, name)
        total = (products + casts).subs({m: 16384, k: 8192, n: 8192})
        assert float(total) > 3 * 2 * 16384 * 8192 * 8192 / FP8


def test_without_torchao_the_entry_is_a_literal_of_the_same_keys() -> None:
    ((name, entry),) = ast.literal_eval(write_torchao(h200())).items()
    assert name == "NVIDIA H200"
    assert (entry["bf16_peak_tops"], entry["peak_mem_bw_bytes_sec"]) == (989.5e12, 4.8e12)
    fraction = entry["pct_achievable_gemm_tops"]
    assert entry["bf16_peak_tops"] * fraction == pytest.approx(BF16, rel=1e-12)
    assert entry["fp8_peak_tops"] * fraction == pytest.approx(FP8, rel=1e-12)
    assert entry["pct_achievable_mem_bw"] == pytest.approx(COPY / 4.8e12, rel=1e-12)


def test_a_format_that_was_not_calibrated_is_left_out() -> None:
    ((_, entry),) = ast.literal_eval(write_torchao(without_fp8())).items()
    assert {name for name in entry if name.endswith("_peak_tops")} == {"bf16_peak_tops"}
    assert set(json.loads(write_calculon(without_fp8()))["matrix"]) == {"bfloat16", "float16"}


def test_the_launch_is_named_where_it_was_measured() -> None:
    launch = h200().calibration.constants["launch_graph_s"].value
    comment = f"KERNEL_LAUNCH_OVERHEAD_SEC of that module would be {launch!r}"
    assert comment in write_torchao(h200())
    assert "KERNEL_LAUNCH" not in write_torchao(without("launch_graph_s"))


# --- Calculon -------------------------------------------------------------------------------------

TYPES = {"float8", "float16", "float32", "bfloat16"}
NETWORK = {
    "bandwidth", "efficiency", "size", "latency", "ops", "must_be_filled", "processor_usage",
}  # fmt: skip
COLLECTIVES = {"reduce_scatter", "all_gather", "all_reduce"}
LARGE_FLOP = 1e15


def step(table: list[list[float]], size: float, unit: float) -> float:
    """The efficiency of a size: the first step that is not above it, steps falling."""
    assert table == sorted(table, reverse=True)
    assert all(0 < efficiency <= 1 for _, efficiency in table)
    return next(efficiency for least, efficiency in table if size >= least * unit)


def processor(cfg: dict[str, Any]) -> dict[str, float]:
    """FLOP/s of a large product by type: class Processor at f50f3a4838f6."""
    assert set(cfg) <= TYPES
    return {
        name: kind["tflops"] * 1e12 * step(kind["gflops_efficiency"], LARGE_FLOP, 1e9)
        for name, kind in cfg.items()
    }


def memory(cfg: dict[str, Any], size: float) -> tuple[float, float]:
    """(bytes, bytes per second): class Memory at b2fe8157efd8."""
    assert set(cfg) == {"GiB", "GBps", "MB_efficiency"}
    return cfg["GiB"] * 1024**3, cfg["GBps"] * 1e9 * step(cfg["MB_efficiency"], size, 1e6)


def collective(cfg: dict[str, Any], op: str, size: float, members: int) -> float:
    """Seconds of a collective: class Network at 71f643532f67, its checks included."""
    assert set(cfg) == NETWORK
    assert set(cfg["ops"]) == {"p2p"} | COLLECTIVES
    assert cfg["bandwidth"] > 0
    assert 0 < cfg["efficiency"] <= 1
    assert 0 <= cfg["processor_usage"] < 1
    for name, (scalar, offset) in cfg["ops"].items():
        assert scalar > 0
        assert (offset is None) == (name not in COLLECTIVES)
    scalar, offset = cfg["ops"][op]
    moved = size * scalar
    moved += moved / members * (offset or 0)
    return float(cfg["latency"] + moved / (cfg["bandwidth"] * 1e9 * cfg["efficiency"]))


def calculon_system() -> dict[str, Any]:
    """What class System at 345f8934e7f2 reads; it passes over the other top-level keys."""
    cfg: dict[str, Any] = json.loads(write_calculon(h200()))
    assert cfg["processing_mode"] in ("roofline", "no_overlap")
    return cfg


def test_its_matrix_engine_runs_at_our_rates() -> None:
    rates = processor(calculon_system()["matrix"])
    expected = {"bfloat16": BF16, "float16": BF16, "float8": FP8}
    assert rates == pytest.approx(expected, rel=1e-12)


def test_its_vector_engine_knows_the_same_types_at_the_rate_of_fp32() -> None:
    system = calculon_system()
    rates = processor(system["vector"])
    assert set(rates) == set(system["matrix"])
    assert set(rates.values()) == {67e12}


def test_its_memory_has_our_bandwidth_and_the_offload_has_no_room() -> None:
    system = calculon_system()
    for size in (0.0, 1e3, 1e12):
        room, rate = memory(system["mem1"], size)
        assert room == 150754820096
        assert rate == pytest.approx(measured("dram_copy_bytes_per_s"), rel=1e-12)
    room, rate = memory(system["mem2"], 0.0)
    assert room == 0
    assert rate > 0


@pytest.mark.parametrize(
    ("op", "share"),
    [("reduce_scatter", 7 / 8), ("all_gather", 7 / 8), ("all_reduce", 14 / 8), ("p2p", 1)],
)
def test_its_collectives_are_rings_on_the_link_of_the_datasheet(op: str, share: float) -> None:
    (network,) = calculon_system()["networks"]
    members = 2 if op == "p2p" else 8
    assert collective(network, op, 1e9, members) == pytest.approx(share * 1e9 / 450e9, rel=1e-12)
