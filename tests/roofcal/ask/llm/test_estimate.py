"""Prefill, decode and throughput: sums, bubbles, monotonicity, what bounds them."""

from dataclasses import replace
from itertools import pairwise

import pytest

from roofcal.ask.llm.estimate import BUBBLE, Estimate, curve, estimate
from roofcal.models.duration import NOTHING
from roofcal.models.errors import PredictError
from tests.roofcal.ask.llm.questions import SOURCES, question


def asked(
    name: str = "llama3-8b", recipe: str = "bf16", *, tp: int = 1, pp: int = 1, **load: int
) -> Estimate:
    return estimate(question(name, recipe, tp, pp, **load), SOURCES)


def test_operators_add_up_to_the_phases() -> None:
    found = asked(batch=4)
    for stretch in (found.prefill, found.decode):
        assert stretch.total == sum((o.total for o in stretch.operators), NOTHING)
        assert 0 < stretch.total.low_s < stretch.total.value_s < stretch.total.high_s


def test_decode_of_one_request_is_bound_by_dram_and_not_faster_than_its_weights() -> None:
    found = asked()
    assert found.decode.bound_by == "dram"
    weights = found.memory.weight_bytes - 2 * 128256 * 4096  # the embedding is not read
    assert found.decode.total.value_s > weights / 4.1e12
    assert found.decode.total.value_s < 1.5 * weights / 4.1e12


def test_prefill_is_not_faster_than_its_operations() -> None:
    found = asked(batch=4)
    assert found.first_token.value_s > 2 * 7.5e9 * 4 * 2048 / 1e15
    assert found.prefill.bound_by in ("power", "tiles")


def test_rates_follow_from_the_times() -> None:
    found = asked(batch=8, output=100)
    step = found.decode.total.value_s
    assert found.request_tokens_per_s.value == pytest.approx(1 / step)
    assert found.decode_tokens_per_s.value == pytest.approx(8 / step)
    whole = found.first_token.value_s + 99 * step
    assert found.whole.value_s == pytest.approx(whole)
    assert found.output_tokens_per_s.value == pytest.approx(800 / whole)
    assert found.output_tokens_per_s.low < found.output_tokens_per_s.value


def test_one_token_of_output_takes_no_decode() -> None:
    found = asked(output=1)
    assert found.whole.value_s == found.first_token.value_s


def test_many_prompts_take_many_passes() -> None:
    one, four = asked(batch=4, prompt=2048), asked(batch=16, prompt=2048)
    assert four.first_token.value_s == pytest.approx(4 * one.first_token.value_s)


def test_a_long_prompt_runs_the_head_in_every_chunk() -> None:
    found = asked(prompt=32768)
    heads = [{o.name: o for o in s.operators}["head"] for s in (found.prefill, found.decode)]
    assert heads[0].calls == 4
    assert heads[0].duration == heads[1].duration


@pytest.mark.parametrize("name", ["llama3-8b", "qwen3-30b-a3b"])
def test_more_requests_take_longer_steps_and_give_more_tokens(name: str) -> None:
    found = [asked(name, batch=batch) for batch in (1, 4, 16, 64)]
    for fewer, more in pairwise(found):
        assert fewer.decode.total.value_s < more.decode.total.value_s
        assert fewer.decode_tokens_per_s.value < more.decode_tokens_per_s.value
        assert fewer.memory.needed_bytes < more.memory.needed_bytes


def test_longer_contexts_take_longer() -> None:
    short, long = asked(batch=16, prompt=512), asked(batch=16, prompt=8192)
    assert short.decode.total.value_s < long.decode.total.value_s
    assert short.first_token.value_s < long.first_token.value_s


def test_fewer_bits_decode_faster() -> None:
    steps = [asked("llama3-8b", recipe).decode.total.value_s for recipe in ("bf16", "int4")]
    assert steps[0] > 1.5 * steps[1]


def test_more_gpus_are_faster_and_wait_for_the_link() -> None:
    one, eight = asked("llama3-8b", batch=8), asked("llama3-8b", batch=8, tp=8)
    assert eight.first_token.value_s < one.first_token.value_s
    assert one.link is None
    assert "not calibrated, assumed 0.7" in str(eight.link)


def test_the_bubble_of_a_pipeline() -> None:
    found = asked(batch=16, pp=4)  # four passes of four prompts
    assert found.prefill.bubble == pytest.approx(3 / 7)
    bubble = next(o for o in found.prefill.operators if o.name == BUBBLE)
    assert bubble.total.value_s == pytest.approx(3 / 7 * found.prefill.total.value_s)
    assert found.decode.bubble == 0
    assert {"send", BUBBLE} <= {o.name for o in found.prefill.operators}
    assert BUBBLE not in {o.name for o in found.decode.operators}


def test_stages_without_a_request_idle() -> None:
    assert asked(batch=1, pp=4).decode.bubble == pytest.approx(3 / 4)
    assert asked(batch=1).decode.bubble == 0


def test_a_token_passes_every_stage_of_a_pipeline() -> None:
    whole, split = asked(batch=1), asked(batch=1, pp=2)
    layers = [{o.name: o.calls for o in e.decode.operators}["down"] for e in (whole, split)]
    assert layers == [32, 32]
    assert split.decode.total.value_s > whole.decode.total.value_s


def test_a_curve_goes_from_one_request_to_the_largest_batch() -> None:
    found = curve(question(prompt=30000, batch=7), SOURCES)
    batches = [point.question.workload.batch for point in found]
    assert batches[:4] == [1, 2, 4, 8]
    assert batches[-1] == found[0].memory.largest_batch
    assert batches == sorted(set(batches))
    rates = [point.decode_tokens_per_s.value for point in found]
    assert rates == sorted(rates)


def test_a_model_that_does_not_fit_has_no_curve() -> None:
    with pytest.raises(PredictError, match="does not fit 1 x made-up at batch 1"):
        curve(question("llama3-70b"), SOURCES)


def test_mistakes_are_told_before_memory_is_counted() -> None:
    with pytest.raises(PredictError, match="it knows bf16, fp8_tensorwise, int4"):
        asked("llama3-405b", "fp9")
    with pytest.raises(PredictError, match="it knows bf16, fp8_tensorwise, int4"):
        curve(question("llama3-405b", "fp9"), SOURCES)
    with pytest.raises(PredictError, match="--tp 3 does not divide"):
        asked("llama3-405b", tp=3)
    linked = replace(question("llama3-405b", tp=2), link="calibrated")
    with pytest.raises(PredictError, match="world sizes it has: none"):
        estimate(linked, SOURCES)
