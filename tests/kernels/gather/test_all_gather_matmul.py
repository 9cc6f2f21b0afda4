"""The collective with ranks as processes on the CPU."""

from pathlib import Path

import pytest
import torch

from tests.kernels.gather.gathered_ranks import main
from tests.kernels.run_ranks import run_ranks

on_the_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="ranks are on the CPU here")


@on_the_cpu
@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("soak", ["soak", pytest.param("long_soak", marks=pytest.mark.exhaustive)])
def test_ranks_follow_each_other_through_turns_and_sizes(
    world: int, soak: str, tmp_path: Path
) -> None:
    run_ranks(main, world, soak, tmp_path, limit_s=600)


@on_the_cpu
@pytest.mark.slow
def test_turns_in_sequence_mix_with_fused_ones(tmp_path: Path) -> None:
    run_ranks(main, 2, "mixed", tmp_path)


@on_the_cpu
def test_kernels_are_loaded_before_a_graph_can_be_captured(tmp_path: Path) -> None:
    run_ranks(main, 2, "loaded", tmp_path)


@on_the_cpu
def test_in_sequence_it_gathers_and_multiplies(tmp_path: Path) -> None:
    run_ranks(main, 2, "sequence", tmp_path)


@on_the_cpu
def test_without_a_gpu_every_rank_says_that_there_is_no_symmetric_memory(tmp_path: Path) -> None:
    run_ranks(main, 2, "refused", tmp_path)
