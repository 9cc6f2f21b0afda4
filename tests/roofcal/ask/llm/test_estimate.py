"""Prefill, decode and throughput: sums, bubbles, monotonicity, what bounds them."""

from dataclasses import replace
from itertools import pairwise

import pytest

from roofcal.ask.llm.estimate import Estimate, estimate, estimates_by_batch
from roofcal.ask.llm.operators import BUBBLE
from roofcal.core.times import NO_TIME
from roofcal.models.errors import PredictError
from tests.roofcal.ask.llm.deployments import SOURCES, deployment


def estimated(
    name: str = "llama3-8b", recipe: str = "bf16", *, tp: int = 1, pp: int = 1, **load: int
) -> Estimate:
    return estimate(deployment(name, recipe, tp, pp, **load), SOURCES)


def test_operators_add_up_to_the_phases() -> None:
    answer = estimated(batch=4)
    for phase in (answer.prefill, answer.decode):
        assert phase.total == sum((o.total for o in phase.operators), NO_TIME)
        assert 0 < phase.total.low_s < phase.total.value_s < phase.total.high_s


def test_decode_of_one_request_is_bound_by_dram_and_not_faster_than_its_weights() -> None:
    answer = estimated()
    assert answer.decode.bound_by == "dram"
    weights = answer.memory.weight_bytes - 2 * 128256 * 4096  # the embedding is not read
    assert answer.decode.total.value_s > weights / 4.1e12
    assert answer.decode.total.value_s < 1.5 * weights / 4.1e12


def test_prefill_is_not_faster_than_its_operations() -> None:
    answer = estimated(batch=4)
    assert answer.first_token.value_s > 2 * 7.5e9 * 4 * 2048 / 1e15
    assert answer.prefill.bound_by in ("power", "tiles")


def test_rates_follow_from_the_times() -> None:
    answer = estimated(batch=8, output=100)
    step = answer.decode.total.value_s
    assert answer.request_tokens_per_s.value == pytest.approx(1 / step)
    assert answer.decode_tokens_per_s.value == pytest.approx(8 / step)
    whole = answer.first_token.value_s + 99 * step
    assert answer.all_tokens.value_s == pytest.approx(whole)
    assert answer.output_tokens_per_s.value == pytest.approx(800 / whole)
    assert answer.output_tokens_per_s.low < answer.output_tokens_per_s.value


def test_many_prompts_take_many_passes() -> None:
    one, four = estimated(batch=4, prompt=2048), estimated(batch=16, prompt=2048)
    assert four.first_token.value_s == pytest.approx(4 * one.first_token.value_s)


def test_a_long_prompt_runs_the_head_in_every_chunk() -> None:
    answer = estimated(prompt=32768)
    heads = [{o.name: o for o in s.operators}["head"] for s in (answer.prefill, answer.decode)]
    assert heads[0].calls == 4
    assert heads[0].duration == heads[1].duration


@pytest.mark.parametrize("name", ["llama3-8b", "qwen3-30b-a3b"])
def test_more_requests_take_longer_steps_and_give_more_tokens(name: str) -> None:
    estimates = [estimated(name, batch=batch) for batch in (1, 4, 16, 64)]
    for fewer, more in pairwise(estimates):
        assert fewer.decode.total.value_s < more.decode.total.value_s
        assert fewer.decode_tokens_per_s.value < more.decode_tokens_per_s.value
        assert fewer.memory.needed_bytes < more.memory.needed_bytes


def test_the_bubble_of_a_pipeline() -> None:
    answer = estimated(batch=16, pp=4)  # four passes of four prompts
    assert answer.prefill.bubble == pytest.approx(3 / 7)
    bubble = next(o for o in answer.prefill.operators if o.name == BUBBLE)
    assert bubble.total.value_s == pytest.approx(3 / 7 * answer.prefill.total.value_s)
    assert answer.decode.bubble == 0
    assert {"send", BUBBLE} <= {o.name for o in answer.prefill.operators}
    assert BUBBLE not in {o.name for o in answer.decode.operators}
    assert estimated(batch=1, pp=4).decode.bubble == pytest.approx(3 / 4)  # stages idle
    assert estimated(batch=1).decode.bubble == 0


def test_a_token_passes_every_stage_of_a_pipeline() -> None:
    whole, split = estimated(batch=1), estimated(batch=1, pp=2)
    layers = [{o.name: o.calls for o in e.decode.operators}["down"] for e in (whole, split)]
    assert layers == [32, 32]
    assert split.decode.total.value_s > whole.decode.total.value_s


def test_batches_go_from_one_request_to_the_largest_batch() -> None:
    estimates = estimates_by_batch(deployment(prompt=30000, batch=7), SOURCES)
    batches = [answer.deployment.workload.batch for answer in estimates]
    assert batches[:4] == [1, 2, 4, 8]
    assert batches[-1] == estimates[0].memory.largest_batch
    assert batches == sorted(set(batches))
    rates = [answer.decode_tokens_per_s.value for answer in estimates]
    assert rates == sorted(rates)


def test_mistakes_are_reported_before_memory_is_counted() -> None:
    with pytest.raises(PredictError, match="it knows bf16, fp8_tensorwise, int4"):
        estimated("llama3-405b", "fp9")
    with pytest.raises(PredictError, match="it knows bf16, fp8_tensorwise, int4"):
        estimates_by_batch(deployment("llama3-405b", "fp9"), SOURCES)
    with pytest.raises(PredictError, match="--tp 3 does not divide"):
        estimated("llama3-405b", tp=3)
    linked = replace(deployment("llama3-405b", tp=2), link="calibrated")
    with pytest.raises(PredictError, match="world sizes it has: none"):
        estimate(linked, SOURCES)


def test_one_token_takes_no_decode_and_fewer_bits_decode_faster() -> None:
    one = estimate(deployment(output=1), SOURCES)
    assert one.all_tokens.value_s == one.first_token.value_s
    load = deployment(prompt=100, output=50).workload
    assert (load.mean_context, load.longest_context) == (125, 150)
    bf16, int4 = (
        estimate(deployment("llama3-8b", recipe), SOURCES).decode.total.value_s
        for recipe in ("bf16", "int4")
    )
    assert bf16 > 1.5 * int4
    with pytest.raises(PredictError, match="does not fit 1 x made-up at batch 1"):
        estimates_by_batch(deployment("llama3-70b"), SOURCES)


def test_longer_contexts_take_longer() -> None:
    short, long = estimated(batch=16, prompt=512), estimated(batch=16, prompt=8192)
    assert short.decode.total.value_s < long.decode.total.value_s
    assert short.first_token.value_s < long.first_token.value_s


def test_more_gpus_are_faster_and_wait_for_the_link() -> None:
    one, eight = estimated("llama3-8b", batch=8), estimated("llama3-8b", batch=8, tp=8)
    assert eight.first_token.value_s < one.first_token.value_s
    assert one.link is None
    assert "not calibrated, assumed 0.7" in str(eight.link)
