"""Calculon's parsers take the file and work with the rates that we measured."""

import json
from typing import Any

import pytest

from roofcal.export.calculon import write
from tests.roofcal.export.subjects import h200, measured, without

TYPES = {"float8", "float16", "float32", "bfloat16"}
NETWORK = {
    "bandwidth", "efficiency", "size", "latency", "ops", "must_be_filled", "processor_usage",
}  # fmt: skip
COLLECTIVES = {"reduce_scatter", "all_gather", "all_reduce"}
LARGE = 1e15


def step(table: list[list[float]], size: float, unit: float) -> float:
    """The efficiency of a size: the first step that is not above it, steps falling."""
    assert table == sorted(table, reverse=True)
    assert all(0 < efficiency <= 1 for _, efficiency in table)
    return next(efficiency for least, efficiency in table if size >= least * unit)


def processor(cfg: dict[str, Any]) -> dict[str, float]:
    """FLOP/s of a large product by type: class Processor at f50f3a4838f6."""
    assert set(cfg) <= TYPES
    return {
        name: kind["tflops"] * 1e12 * step(kind["gflops_efficiency"], LARGE, 1e9)
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


def system() -> dict[str, Any]:
    """What class System at 345f8934e7f2 reads; it passes over the other top-level keys."""
    cfg: dict[str, Any] = json.loads(write(h200()))
    assert cfg["processing_mode"] in ("roofline", "no_overlap")
    return cfg


def test_its_matrix_engine_runs_at_our_rates() -> None:
    rates = processor(system()["matrix"])
    bf16, fp8 = (
        measured(f"gemm.cublaslt.{recipe}.ceiling_flops_per_s")
        for recipe in ("bf16", "fp8_axiswise")
    )
    assert rates["bfloat16"] == pytest.approx(bf16, rel=1e-12)
    assert rates["float16"] == pytest.approx(bf16, rel=1e-12)
    assert rates["float8"] == pytest.approx(fp8, rel=1e-12)


def test_its_vector_engine_knows_the_same_types_at_the_rate_of_fp32() -> None:
    found = system()
    rates = processor(found["vector"])
    assert set(rates) == set(found["matrix"])
    assert set(rates.values()) == {67e12}


def test_its_memory_has_our_bandwidth_and_the_offload_has_no_room() -> None:
    found = system()
    for size in (0.0, 1e3, 1e12):
        room, rate = memory(found["mem1"], size)
        assert room == 150754820096
        assert rate == pytest.approx(measured("dram_copy_bytes_per_s"), rel=1e-12)
    room, rate = memory(found["mem2"], 0.0)
    assert room == 0
    assert rate > 0


@pytest.mark.parametrize(
    ("op", "share"), [("reduce_scatter", 7 / 8), ("all_gather", 7 / 8), ("all_reduce", 14 / 8)]
)
def test_its_collectives_are_rings_on_the_link_of_the_datasheet(op: str, share: float) -> None:
    (network,) = system()["networks"]
    assert collective(network, op, 1e9, 8) == pytest.approx(share * 1e9 / 450e9, rel=1e-12)


def test_two_neighbours_exchange_at_the_whole_rate() -> None:
    (network,) = system()["networks"]
    assert collective(network, "p2p", 1e9, 2) == pytest.approx(1e9 / 450e9, rel=1e-12)


def test_a_type_that_was_not_calibrated_is_left_out() -> None:
    assert set(json.loads(write(without("gemm.cublaslt.fp8", "gemm.triton.fp8")))["matrix"]) == {
        "bfloat16",
        "float16",
    }
