"""An all-gather with its product by hand: in sequence, overlapped, bounds."""

import numpy as np
import pytest

from roofcal.ops.all_gather_matmul.model import (
    CHUNKS,
    GatherParts,
    evaluate,
    pieces,
    received_bytes,
)
from roofcal.ops.all_gather_matmul.spec import OP
from roofcal.ops.probe_link.model import Fabric, Line

LIBRARY = Line(latency_s=30e-6, bytes_per_s=250e9)
DIRECT = Line(latency_s=16e-6, bytes_per_s=400e9)
FABRIC = Fabric(library=LIBRARY, direct=DIRECT, copy_latency_s=5e-6, dram_bytes_per_s=4e12)
K = 1000.0


def parts_of(
    provider: str, product_s: float, world_size: int = 2, fabric: Fabric = FABRIC
) -> GatherParts:
    piece = np.array([product_s / pieces(provider, world_size)])
    rows = 112e6 / (2 * K) * world_size / (world_size - 1)  # so that 112 MB are received
    return evaluate(provider, "bf16", fabric, (np.array([rows]), np.array([K])), piece, world_size)


def test_rows_travel_with_their_scales() -> None:
    m, k = np.array([512.0]), np.array([1024.0])
    assert received_bytes("bf16", m, k, 4).tolist() == [512 * 1024 * 2 * 3 / 4]
    assert received_bytes("fp8_axiswise", m, k, 4).tolist() == [512 * (1024 + 4) * 3 / 4]
    with pytest.raises(KeyError):
        received_bytes("bf17", m, k, 4)


def test_a_long_gather_is_followed_by_the_last_piece_of_the_best_cut() -> None:
    by_cut = [16e-6 + 280e-6 + 200e-6 / (2 * cut) + (cut - 1) * 5e-6 for cut in CHUNKS]
    assert parts_of("symm_mem_fused", 200e-6).total[0] == pytest.approx(min(by_cut))
    assert min(by_cut) == by_cut[2]
    dear = Fabric(library=LIBRARY, direct=DIRECT, copy_latency_s=1e-3)
    assert parts_of("symm_mem_fused", 200e-6, fabric=dear).total[0] == pytest.approx(by_cut[0])


def test_ours_falls_back_to_the_sequence_where_that_is_faster() -> None:
    slow = Fabric(library=LIBRARY, direct=Line(latency_s=1.0, bytes_per_s=1e9))
    sequence = parts_of("nccl_then_gemm", 1e-3).total[0]
    assert parts_of("symm_mem_fused", 1e-3, fabric=slow).total[0] == pytest.approx(sequence)


def test_torch_copies_its_rows_and_multiplies_by_shards() -> None:
    assert pieces("torch_fused", 8) == 8
    own = 2 * 112e6 / 7 / 4e12
    assert parts_of("torch_fused", 2e-3, 8).total[0] == pytest.approx(own + 16e-6 + 2e-3)
    short = parts_of("torch_fused", 200e-6, 8).total[0]
    assert short == pytest.approx(own + 16e-6 + 280e-6 + 200e-6 / 8)


def test_every_provider_has_a_time_but_no_other_and_nothing_fused_without_symmetric_memory() -> (
    None
):
    assert all(parts_of(name, 1e-3).total[0] > 0 for name in OP.every_provider)
    alone = Fabric(library=LIBRARY)
    for provider, fabric in (("torch_fused", alone), ("symm_mem_fused", alone), ("magic", FABRIC)):
        with pytest.raises(KeyError):
            parts_of(provider, 1e-3, fabric=fabric)
