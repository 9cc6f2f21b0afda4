"""The collective: what it refuses, in sequence with one rank, and with ranks as processes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from kernels.gather.all_gather_matmul import (
    AllGatherMatmul,
    GatheredRows,
    Tuning,
    check_sizes,
    check_weights,
)
from kernels.gather.plans import Gathered
from tests.exhaustive import mostly
from tests.kernels.gather import gathered_gpu_ranks
from tests.kernels.gather.gathered_ranks import TILE, main
from tests.kernels.gemm.gemm_reference import assert_close, normal_fp8, product, random_scales
from tests.kernels.run_ranks import run_ranks

on_the_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="ranks are on the CPU here")
BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
CPU = torch.device("cpu")
SIZES: dict[str, Any] = {
    "shard_rows": 64,
    "k": 32,
    "n": 8,
    "dtype": BF16,
    "world": 2,
    "scaled": False,
    "buffers": 2,
}
BAD_SIZES: list[tuple[dict[str, Any], str]] = [
    ({"shard_rows": 0}, "shard_rows: wanted at least 1, got 0"),
    ({"shard_rows": 2**30}, r"gathered A: wanted at most 2147418112 rows .*got shape \(2147483648"),
    ({"n": 2**31}, r"weights: wanted at most 2147418112 rows and columns .*; split it"),
    ({"n": -1}, "n: wanted at least 1, got -1"),
    ({"k": 12}, r"k: wanted a multiple of 8 with bfloat16 \(.*\), got 12; fill up A"),
    ({"k": 24, "dtype": FP8, "scaled": True}, "k: wanted a multiple of 16 with float8_e4m3fn"),
    ({"dtype": torch.float32}, "dtype: wanted bfloat16, float16 or float8_e4m3fn, got float32"),
    ({"scaled": True}, "scaled: wanted False with bfloat16, got True"),
    ({"dtype": FP8}, "scaled: wanted True with float8_e4m3fn, got False"),
    ({"buffers": 1}, "buffers: wanted at least 2, which take turns, got 1"),
]


@pytest.mark.parametrize(("change", "message"), BAD_SIZES)
def test_bad_sizes_are_refused(change: dict[str, Any], message: str) -> None:
    check_sizes(**SIZES)
    with pytest.raises(ValueError, match=f"^{message}"):
        check_sizes(**SIZES | change)


def weights(dtype: torch.dtype = BF16, *, rows: int = 8, cols: int = 32) -> torch.Tensor:
    return torch.zeros(rows, cols).to(dtype)


SCALES = torch.ones(1, 8)
BAD_WEIGHTS: list[tuple[torch.dtype, torch.Tensor, torch.Tensor | None, str]] = [
    (BF16, weights(cols=40), None, r"weights: wanted \[8, 32\], got \[8, 40\]"),
    (BF16, weights(rows=9), None, r"weights: wanted \[8, 32\], got \[9, 32\]"),
    (BF16, weights(torch.float16), None, "weights: wanted bfloat16 on cpu, got float16 on cpu"),
    (BF16, weights(cols=64)[:, ::2], None, "weights: wanted rows without gaps .* clone them"),
    (BF16, weights().flatten().roll(1).new_zeros(264)[4:260].view(8, 32), None, "weights: .* at 8"),
    (BF16, weights(), SCALES, "weight_scales: wanted None with bfloat16, got a tensor"),
    (FP8, weights(FP8), None, r"weight_scales: wanted \[1, 8\] float32, got None"),
    (FP8, weights(FP8), torch.ones(8), r"weight_scales: wanted \[1, 8\] without gaps, got \[8\]"),
    (FP8, weights(FP8), SCALES.half(), "weight_scales: wanted float32 on cpu, got float16 on cpu"),
]


@pytest.mark.parametrize(("dtype", "given", "scales", "message"), BAD_WEIGHTS)
def test_bad_weights_are_refused(
    dtype: torch.dtype, given: torch.Tensor, scales: torch.Tensor | None, message: str
) -> None:
    what = Gathered(world=2, shard_rows=64, k=32, n=8, dtype=dtype)
    scaled = dtype == FP8
    good = SCALES if scaled else None
    check_weights(what, weights(dtype), good, scaled=scaled, device=CPU)
    with pytest.raises(ValueError, match=f"^{message}"):
        check_weights(what, given, scales, scaled=scaled, device=CPU)


class OneRank:
    """A group of one, before which nothing may happen."""

    def size(self) -> int:
        return 1

    def rank(self) -> int:
        raise AssertionError("it went on")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((15, 32, 8), "shard_rows: wanted at least a tile's rows with fused=True, got 15"),
        ((64, 33, 8), "k: wanted a multiple of 8 with bfloat16"),
    ],
)
def test_the_collective_refuses_before_it_waits_for_others(
    sizes: tuple[int, int, int], message: str
) -> None:
    group: Any = OneRank()
    with pytest.raises(ValueError, match=f"^{message}"):
        AllGatherMatmul(group, *sizes, BF16, fused=True, tuning=Tuning(tile=TILE))


@on_the_cpu
def test_one_rank_multiplies_what_it_has(tmp_path: Path) -> None:
    store = f"file://{tmp_path}/store"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        group = distributed.group.WORLD
        assert group is not None
        a, w = torch.randn(40, 32).bfloat16(), torch.randn(24, 32).bfloat16()
        one = torch.ones(())
        assert_close(GatheredRows(group, a, None).multiplied(w, None), product(a, w, one, one))
        for columns in (32, 23):  # the library's, and a number it refuses on GPUs
            a, w = normal_fp8(40, 32, CPU), normal_fp8(columns, 32, CPU)
            rows, columns_by = random_scales(40, device=CPU), random_scales(1, columns, device=CPU)
            c = GatheredRows(group, a, rows).multiplied(w, columns_by)
            assert_close(c, product(a, w, rows, columns_by))
    finally:
        distributed.destroy_process_group()


@on_the_cpu
@pytest.mark.slow
@pytest.mark.parametrize("what", mostly(("soak", "long_soak"), "soak"))
@pytest.mark.parametrize("world", mostly((2, 3), 3))
def test_ranks_follow_each_other_through_turns_and_sizes(
    world: int, what: str, tmp_path: Path
) -> None:
    run_ranks(main, world, what, tmp_path, limit_s=600)


@on_the_cpu
@pytest.mark.slow
@pytest.mark.parametrize("what", ["mixed", "loaded_then_in_sequence_then_refused"])
def test_two_ranks_do_what_their_functions_say(what: str, tmp_path: Path) -> None:
    run_ranks(main, 2, what, tmp_path)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs at least")
@pytest.mark.parametrize("what", ["eager", "captured_first", "graphs", "soak"])
def test_every_rank_has_the_product_in_every_turn(what: str, tmp_path: Path) -> None:
    """Ranks that hang are killed, and fail the test."""
    run_ranks(gathered_gpu_ranks.main, torch.cuda.device_count(), what, tmp_path, limit_s=150)
