"""All-gather + product: by processes on this CPU, and its check by a group of one rank."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from roofcal.core.records import Protocol
from roofcal.measure.session import measure
from roofcal.ops.all_gather_matmul import bench
from roofcal.ops.all_gather_matmul.spec import OP
from roofcal.ops.spec import Unsupported
from tests.roofcal.measure.runs import Run, point

SHAPE = {"m": 64, "n": 32, "k": 48}


def test_processes_gather_and_multiply(run: Run) -> None:
    protocol = Protocol(method="wall", cache="hot")
    plan = [
        point("bf16", op=OP.name, provider=name, shape=SHAPE, world_size=2, protocol=protocol)
        for name in (*OP.providers_on("cpu"), "torch_fused")
    ]
    rows = {p.provider: row for p, row in zip(plan, measure(run.job(plan)), strict=True)}
    refused = rows.pop("torch_fused")
    assert (refused.status, "needs GPUs" in str(refused.reason)) == ("unsupported", True)
    for row in rows.values():
        assert (row.status, row.reason) == ("ok", None)
        assert len(row.rank_medians_s) == 2
    assert 0 < (rows["gloo_then_gemm"].relative_error or 0) < 5e-3


def inputs(recipe: str = "bf16") -> dict[str, torch.Tensor]:
    return bench.make_inputs(recipe, SHAPE, torch.Generator().manual_seed(0), "normal")


@pytest.mark.usefixtures("lonely")
@pytest.mark.parametrize("recipe", OP.recipes)
def test_rows_and_scales_are_gathered_as_they_are(recipe: str) -> None:
    operands = inputs(recipe)
    output = bench.build("all_gather_only", recipe, SHAPE)(operands)
    assert set(output) == {name for name in operands if name in ("a", "scale_a")}
    assert all(torch.equal(output[name].float(), operands[name].float()) for name in output)
    assert bench.relative_error(recipe, operands, output) == 0.0


@pytest.mark.usefixtures("lonely")
def test_a_product_of_other_rows_is_wrong() -> None:
    operands = inputs()
    output = bench.build("gloo_then_gemm", "bf16", SHAPE)(operands)
    assert bench.relative_error("bf16", operands, output) < bench.tolerance("bf16")
    assert bench.relative_error("bf16", operands, output.roll(1, 0)) > 1.0
    rows = {"a": operands["a"].roll(1, 0)}
    assert bench.relative_error("bf16", operands, rows) > 1.0


@pytest.mark.usefixtures("lonely")
def test_gemm_only_multiplies_rows_that_were_gathered_before() -> None:
    operands = inputs()
    arranged = bench.arrange("gemm_only", "bf16", operands)
    assert torch.equal(arranged["a"], operands["a"])
    assert arranged["a"].data_ptr() != operands["a"].data_ptr()
    output = bench.build("gemm_only", "bf16", SHAPE)(arranged)
    assert bench.relative_error("bf16", operands, output) < bench.tolerance("bf16")


class OurOp:
    """kernels.gather.all_gather_matmul.AllGatherMatmul on one rank: buffers take turns."""

    def __init__(
        self, _: Any, shard_rows: int, k: int, n: int, dtype: Any, *, scaled: bool, buffers: int
    ) -> None:
        assert (n, scaled) == (SHAPE["n"], False)
        self.rows = torch.full((buffers, shard_rows, k), float("nan"), dtype=dtype)
        self.turn = 0

    def own_shard(self) -> torch.Tensor:
        return self.rows[self.turn % len(self.rows)]

    def own_scales(self) -> None:
        return None

    def __call__(self, weights: torch.Tensor, weight_scales: None) -> torch.Tensor:
        assert weight_scales is None
        product = self.own_shard() @ weights.t()
        self.turn += 1
        return product


def stand_in(patch: pytest.MonkeyPatch, kind: Any) -> None:
    module = ModuleType("kernels.gather.all_gather_matmul")
    module.AllGatherMatmul = kind  # type: ignore[attr-defined]
    import kernels.gather

    patch.setitem(sys.modules, "kernels.gather.all_gather_matmul", module)
    patch.setattr(kernels.gather, "all_gather_matmul", module, raising=False)


@pytest.mark.usefixtures("lonely")
def test_the_buffers_of_our_kernel_hold_the_rows_in_every_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in(monkeypatch, OurOp)
    operands, call = inputs(), bench.build("symm_mem_fused", "bf16", SHAPE)
    for _ in range(5):
        assert bench.relative_error("bf16", operands, call(operands)) < bench.tolerance("bf16")


@pytest.mark.usefixtures("lonely")
def test_gpus_without_peer_access_are_a_refusal_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_access = type("NoPeerAccess", (RuntimeError,), {})

    def refuse(*_: Any, **__: Any) -> None:
        raise no_access("GPU 0 cannot address the memory of GPU 1")

    stand_in(monkeypatch, refuse)
    with pytest.raises(Unsupported, match="GPU 0 cannot address"):
        bench.build("symm_mem_fused", "bf16", SHAPE)
