"""Shards that no kernel of a recipe takes are refused, as `predict` refuses such a product."""

from dataclasses import replace

import pytest

from roofcal.ask.devices import datasheet
from roofcal.ask.llm.architecture import LocalMatrix, local_matrices, tensor_degrees
from roofcal.ask.llm.deployment import runnable_degrees, why_refused
from roofcal.ask.llm.estimate import estimate, estimates_by_batch
from roofcal.ask.llm.operator_models import BY, CalibratedOperators
from roofcal.ask.llm.sweep import sweep, table_rows, with_smallest_cut
from roofcal.ask.points import predict_point
from roofcal.core.records import PlanPoint
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, deployment, model
from tests.roofcal.ask.published_run import published_calibration

H200 = Sources(calibration=published_calibration(), spec=datasheet("nvidia-h200"))
QWEN = "qwen3-30b-a3b"


def sources_of(by: str) -> Sources:
    return H200 if by == "calibrated" else replace(H200, calibration=None)


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize(("recipe", "largest"), [("fp8_axiswise", 16), ("int4", 2)])
def test_every_model_of_time_refuses_a_shard_and_names_the_largest_degree(
    by: str, recipe: str, largest: int
) -> None:
    refused = deployment(QWEN, recipe, tp=32)
    with pytest.raises(PredictError) as caught:
        estimate(refused, sources_of(by), by)
    message = str(caught.value)
    assert message.startswith(f"--tp 32 leaves 2048 x 24 (n x k) of expert_down of {QWEN}")
    assert f"largest --tp whose shards work: {largest};" in message
    assert "torch_compile" not in message
    assert recipe != "int4" or "cublaslt" not in message, "it has no int4"
    estimate(replace(refused, tensor=min(largest, 8)), sources_of(by), by)  # of links: 8 GPUs
    with pytest.raises(PredictError, match="--tp 32 leaves 2048 x 24"):
        estimates_by_batch(refused, sources_of(by), by)


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("recipe", ["bf16", "fp8_tensorwise", "int4"])
def test_a_shard_is_refused_where_predict_refuses_its_product(by: str, recipe: str) -> None:
    op, op_recipe = "gemm", recipe
    if recipe == "int4":
        op, op_recipe = "mixed_gemm", "int4_groupwise_g128"
    for tensor in tensor_degrees(model(QWEN), 64):
        reasons = []
        for matrix in local_matrices(model(QWEN), tensor).values():
            shape = {"m": 16, "n": matrix.n, "k": matrix.k}
            point = PlanPoint(
                op=op, provider="", recipe=op_recipe, shape=shape, device="nvidia-h200"
            )
            try:
                predict_point(point, by, sources_of(by))
            except PredictError as error:
                reasons.append(str(error))
        reason = why_refused(model(QWEN), recipe, tensor, sources_of(by), by)
        assert (reason is None) == (not reasons), (tensor, reasons)
        assert reason is None or reason.endswith(reasons[0])


def test_an_expert_is_judged_by_its_own_sides_and_not_by_all_of_them_together() -> None:
    odd, even = (LocalMatrix(n=n, k=4096) for n in (1032, 1040))  # n in sixteens, or two of them
    published = published_calibration()
    times = CalibratedOperators(calibration=published, spec=LINKED)
    assert times.product("fp8_axiswise", 64, even, 2).provider == "cublaslt"
    assert times.product("fp8_axiswise", 64, odd, 2).provider == "triton"
    libraries = {
        name: constant
        for name, constant in published.constants.items()
        if ".triton" not in name  # cublaslt and tinygemm are left, which take n in sixteens
    }
    library = CalibratedOperators(calibration=replace(published, constants=libraries), spec=LINKED)
    with pytest.raises(PredictError, match="cublaslt takes fp8_axiswise with n in multiples of 16"):
        library.product("fp8_axiswise", 64, odd, 2)
    assert library.product("int4", 8, even, 2).provider == "tinygemm"
    assert library.product("int4", 8, odd, 2).provider == "cublaslt (bf16)"


def test_the_table_the_sweep_and_the_smallest_cut_leave_refused_cuts_out() -> None:
    rows = list(table_rows(SOURCES, {QWEN: model(QWEN)}))
    degrees = {r: {row["tensor_parallel"] for row in rows if row["recipe"] == r} for r in
               ("bf16", "fp8_tensorwise", "int4")}  # fmt: skip
    assert degrees == {"bf16": {1, 2, 4, 8}, "fp8_tensorwise": {1, 2, 4, 8}, "int4": {1, 2}}
    swept = sweep(deployment(QWEN, "int4"), SOURCES, "calibrated")
    assert {tensor for tensor, _ in swept.estimates} == {1, 2}
    assert list(swept.refused) == [4, 8]
    assert "not timed: --tp 8 leaves 2048 x 96 (n x k) of expert_down" in str(swept)
    assert [entry["tensor_parallel"] for entry in swept.answer["refused"]] == [4, 8]
    assert runnable_degrees(model(QWEN), "int4", SOURCES, "calibrated", 8) == [1, 2]
    large = deployment(QWEN, "int4", batch=1800)
    assert with_smallest_cut(large, SOURCES, "calibrated").tensor <= 2


def test_a_model_that_fits_no_degree_of_a_recipe_says_so() -> None:
    qwen = model("qwen3-32b")
    odd = {**qwen.matrices, "down": qwen.matrices["down"].model_copy(update={"k": 25608})}
    changed = replace(deployment("qwen3-32b", "fp8_tensorwise"), model=qwen.model_copy(
        update={"matrices": odd}))  # fmt: skip
    with pytest.raises(PredictError, match=r"5120 x 25608 .* no --tp works; --recipe bf16 takes"):
        with_smallest_cut(changed, SOURCES, "calibrated")


def test_what_does_not_fit_is_not_sent_to_a_degree_that_is_refused() -> None:
    with pytest.raises(PredictError) as caught:
        estimate(deployment(QWEN, "int4", batch=2500), SOURCES)
    assert "no --tp up to 64 fits" in str(caught.value)
