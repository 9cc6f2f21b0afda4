"""Prefill, decode and throughput: sums, bubbles, monotonicity; the record and the text of them."""

import json
import re
from dataclasses import replace

import pytest

from roofcal.ask.devices import datasheet
from roofcal.ask.llm.estimate import Estimate, estimate, estimates_by_batch, notes_of_all
from roofcal.ask.llm.operator_models import CalibratedOperators
from roofcal.ask.llm.operators import BUBBLE
from roofcal.ask.llm.sweep import sweep
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, calibrated, deployment
from tests.roofcal.ask.published_run import published_calibration

PUBLISHED = Sources(calibration=published_calibration(), spec=datasheet("nvidia-h200"))


def estimated(
    name: str = "llama3-8b", recipe: str = "bf16", *, tp: int = 1, pp: int = 1, **load: int
) -> Estimate:
    return estimate(deployment(name, recipe, tp, pp, **load), SOURCES)


def test_an_estimate_is_no_faster_than_its_weights_and_operations_and_its_rates_follow() -> None:
    one = estimated(output=1)
    assert one.decode.bound_by == "dram"
    weights = one.memory.weight_bytes - 2 * 128256 * 4096  # the embedding is not read
    assert weights / 4.1e12 < one.decode.total.value_s < 1.5 * weights / 4.1e12
    assert one.all_tokens.value_s == one.first_token.value_s, "one token takes no decode"
    answer = estimated(batch=4, output=100)
    assert answer.first_token.value_s > 2 * 7.5e9 * 4 * 2048 / 1e15
    assert answer.prefill.bound_by in ("power", "tiles")
    step = answer.decode.total.value_s
    assert answer.request_tokens_per_s.value == pytest.approx(1 / step)
    assert answer.decode_tokens_per_s.value == pytest.approx(4 / step)
    whole = answer.first_token.value_s + 99 * step
    assert answer.all_tokens.value_s == pytest.approx(whole)
    assert answer.output_tokens_per_s.value == pytest.approx(400 / whole)


def test_many_prompts_take_many_passes_and_a_long_one_runs_the_head_in_every_chunk() -> None:
    one, four = estimated(batch=4, prompt=2048), estimated(batch=16, prompt=2048)
    assert four.first_token.value_s == pytest.approx(4 * one.first_token.value_s)
    long = estimated(prompt=32768)
    heads = [{o.name: o for o in phase.operators}["head"] for phase in (long.prefill, long.decode)]
    assert heads[0].calls == 4
    assert heads[0].duration == heads[1].duration


def test_the_bubble_of_a_pipeline() -> None:
    answer = estimated(batch=16, pp=4)  # four passes of four prompts
    assert answer.prefill.bubble == pytest.approx(3 / 7)
    bubble = next(o for o in answer.prefill.operators if o.name == BUBBLE)
    assert bubble.total.value_s == pytest.approx(3 / 7 * answer.prefill.total.value_s)
    assert answer.decode.bubble == 0
    assert {"send", BUBBLE} <= {o.name for o in answer.prefill.operators}
    assert BUBBLE not in {o.name for o in answer.decode.operators}
    assert estimated(batch=1, pp=4).decode.bubble == pytest.approx(3 / 4)  # stages idle
    text = str(answer)
    assert "bubble       42.9% of prefill, 0.0% of decode" in text
    row = next(line for line in text.splitlines() if line.startswith("pipeline bubble"))
    assert row.endswith("pipeline")
    whole, split = estimated(batch=1), estimated(batch=1, pp=2)
    layers = [{o.name: o.calls for o in e.decode.operators}["down"] for e in (whole, split)]
    assert layers == [32, 32]
    assert split.decode.total.value_s > whole.decode.total.value_s


def test_the_record_is_json_that_repeats_the_deployment_and_adds_up() -> None:
    whole = estimated(tp=2, batch=4)
    answer = whole.answer
    assert json.loads(json.dumps(answer)) == answer
    expected = {"model": "llama3-8b", "device": "made-up", "environment": "e1", "recipe": "bf16",
              "tensor_parallel": 2, "pipeline_parallel": 1, "batch": 4, "prompt_tokens": 2048,
              "output_tokens": 256, "chunk_tokens": 8192}  # fmt: skip
    assert answer.items() >= expected.items()
    assert set(answer) - set(whole.record) == {"prefill", "decode"}
    for rate in ("request_tokens_per_s", "decode_tokens_per_s", "output_tokens_per_s"):
        assert answer[f"{rate}_low"] < answer[rate] < answer[f"{rate}_high"]
    for phase, total in (("prefill", "first_token"), ("decode", "decode_step")):
        for end in ("s", "low_s", "high_s"):
            added = sum(row[f"total_{end}"] for row in answer[phase])
            assert added == pytest.approx(answer[f"{total}_{end}"])
        for row in answer[phase]:
            assert row["calls"] * row["call_s"] == pytest.approx(row["total_s"])
            assert row["bound_by"]
        assert 0 < answer[f"{total}_low_s"] < answer[f"{total}_s"] < answer[f"{total}_high_s"]
    parts = sum(answer[f"{part}_bytes_per_gpu"] for part in ("weight", "kv_cache", "activation"))
    assert parts == answer["needed_bytes_per_gpu"] <= answer["usable_bytes_per_gpu"]
    assert answer["largest_batch"] >= 4


def test_parameters_per_token_are_said_of_a_model_of_experts() -> None:
    assert "qwen3-30b-a3b (30.5e9 parameters, 3.0e9 per token)" in str(estimated("qwen3-30b-a3b"))


def test_assumptions_are_listed() -> None:
    alone = estimated().notes()
    assert alone[0] == "products by cublaslt"
    assert alone[1].startswith("attention: assumed 0.55 (0.35 to 0.75)")
    assert not any(line.startswith(("link", "int4", "casts", "extrapolated")) for line in alone)
    wide = estimated("llama3-70b", tp=16).notes()
    assert wide[1].endswith("as fast between hosts as within one, where 16 GPUs take several hosts")
    small = estimated(recipe="int4").notes()
    assert any(
        "4.25 bit" in line and "no int4 kernel was calibrated: cublaslt (bf16) is" in line
        for line in small
    )
    assert "products by cublaslt (bf16), cublaslt" in small
    bare = "casts: not calibrated, timed as their least bytes at the copy bandwidth"
    assert bare in estimated(recipe="fp8_tensorwise").notes()
    times = CalibratedOperators(calibration=calibrated(), spec=LINKED)
    assert "casts by the fastest provider that was calibrated" in times.assumptions("fp8_axiswise")


def test_a_sweep_calls_the_link_of_each_cut_what_its_estimate_calls_it() -> None:
    pair = {f"link__{name}__2__bytes_per_s": 4e11 for name in ("all_reduce", "all_gather")}
    pair |= {name.replace("bytes_per_s", "latency_s"): 1e-5 for name in pair}
    constants = {name.removeprefix("link__"): value for name, value in pair.items()}
    linked = replace(SOURCES, calibration=calibrated(**constants))
    swept = sweep(deployment("llama3-8b"), linked, "calibrated", 4)
    links = [line for line in swept.text(1000).splitlines() if line.startswith("link: ")]
    assert links[0] == "link: times of collectives are calibrated (tp x pp: 2 x 1)"
    assert links[1].startswith("link: not calibrated, assumed 0.7")
    assert links[1].endswith("(tp x pp: 1 x 2, 4 x 1, 2 x 2, 1 x 4)")
    for (tensor, pipeline), answers in swept.estimates.items():
        link = estimate(deployment("llama3-8b", tp=tensor, pp=pipeline), linked).link
        assert {answer.link for answer in answers} == {link}


def test_every_line_of_any_batch_is_said_with_the_batches_that_it_holds_for() -> None:
    answers = estimates_by_batch(deployment("llama3-70b", "int4"), PUBLISHED)
    stated = notes_of_all(answers)
    own = {answer.deployment.batch: answer.notes() for answer in answers}
    assert len({line for lines in own.values() for line in lines if "products of" in line}) > 1
    for line in (line for lines in own.values() for line in lines if "extrapolated" not in line):
        batches = [batch for batch, lines in own.items() if line in lines]
        of_all = len(batches) == len(own)
        assert (line if of_all else f"{line} (batch {', '.join(map(str, batches))})") in stated


def test_what_is_extrapolated_in_any_answer_is_summed_up_in_a_line_of_each_phase() -> None:
    swept = sweep(deployment("llama3-70b"), PUBLISHED, "calibrated", 2)
    stated = [line for line in swept.text(1000).splitlines() if line.startswith("extrapolated")]
    assert [line.partition(" of ")[2].partition(" (")[0] for line in stated] == [
        "prefill",
        "decode",
    ]
    of_any = {
        operator.name
        for answer in swept.answers
        for operator in answer.prefill.operators
        if operator.doublings
    }
    names = stated[0].removeprefix("extrapolated: ").partition(" of ")[0]
    assert set(names.split(", ")) == of_any
    assert re.search(
        r"\(\d+% (to \d+% )?of its time\), .* range.* \(tp x pp: 1 x 2, batch \d+\);", stated[0]
    )
