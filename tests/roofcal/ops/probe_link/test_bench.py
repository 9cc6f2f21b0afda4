"""Collectives by processes on this CPU, their checks by a group of one rank, and refusals."""

import pytest
import torch
from torch import distributed

from roofcal.core.records import Protocol
from roofcal.measure.session import measure
from roofcal.ops.probe_link import bench
from roofcal.ops.probe_link.spec import OP, RECIPES
from roofcal.ops.spec import Unsupported
from tests.roofcal.measure.runs import Run, point

SHAPE = {"size_bytes": 4096}


def test_four_processes_gather_scatter_and_sum(run: Run) -> None:
    protocol = Protocol(method="wall", cache="hot")
    plan = [
        point(recipe, op=OP.name, provider=name, shape=SHAPE, world_size=4, protocol=protocol)
        for recipe in RECIPES
        for name in ("gloo", "symm_mem")
    ]
    rows = {
        (p.recipe, p.provider): row for p, row in zip(plan, measure(run.job(plan)), strict=True)
    }
    for (recipe, provider), row in rows.items():
        if provider == "symm_mem":
            assert (row.status, "needs GPUs" in str(row.reason)) == ("unsupported", True)
        elif recipe == "copy_engine_peer":
            assert row.status == "unsupported"
            assert str(row.reason).startswith("gloo has no copy by copy engine")
        else:
            assert (row.status, row.reason) == ("ok", None)
    assert rows["all_gather", "gloo"].relative_error == 0.0
    assert rows["all_reduce", "gloo"].relative_error != 0.0, "bf16 sums of four round"


def inputs(recipe: str) -> dict[str, torch.Tensor]:
    return bench.make_inputs(recipe, SHAPE, torch.Generator().manual_seed(0), "normal")


@pytest.mark.usefixtures("lonely")
@pytest.mark.parametrize("recipe", ["all_gather", "reduce_scatter", "all_reduce"])
def test_wrong_data_is_wrong(recipe: str) -> None:
    operands = inputs(recipe)
    output = bench.build("gloo", recipe, SHAPE)(operands)
    assert bench.relative_error(recipe, operands, output) == 0.0
    ((what, values),) = output.items()
    assert bench.relative_error(recipe, operands, {what: values.roll(1)}) > 1.0


@pytest.mark.usefixtures("lonely")
def test_a_mean_in_place_is_checked_by_what_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def mean(x: torch.Tensor, _: object) -> None:
        x.mul_(0.5)

    monkeypatch.setattr(distributed, "all_reduce", mean)
    operands = inputs("all_reduce")
    output = bench.build("nccl", "all_reduce", SHAPE)(operands)
    assert output["mean"] is operands["x"]
    assert bench.relative_error("all_reduce", operands, output) == pytest.approx(0.5)


def test_an_operation_that_this_torch_lacks_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match=r"torch .* has no torch\.ops\.symm_mem\.no_such_op"):
        bench._torch_op("no_such_op")
