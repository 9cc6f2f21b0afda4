"""The answer for programs: JSON values in SI units that agree with one another."""

import json

import pytest

from roofcal.ask.llm.answer import as_dict
from roofcal.ask.llm.estimate import estimate
from tests.roofcal.ask.llm.questions import SOURCES, question

FOUND = estimate(question(tp=2, batch=4), SOURCES)
ANSWER = as_dict(FOUND)


def test_it_is_json() -> None:
    assert json.loads(json.dumps(ANSWER)) == ANSWER


def test_it_repeats_the_question() -> None:
    wanted = {"model": "llama3-8b", "device": "made-up", "environment": "e1", "recipe": "bf16",
              "tensor_parallel": 2, "pipeline_parallel": 1, "batch": 4, "prompt_tokens": 2048,
              "output_tokens": 256, "chunk_tokens": 8192}  # fmt: skip
    assert ANSWER.items() >= wanted.items()


@pytest.mark.parametrize(
    ("phase", "total"), [("prefill", "first_token"), ("decode", "decode_step")]
)
def test_operators_add_up(phase: str, total: str) -> None:
    for end in ("s", "low_s", "high_s"):
        added = sum(row[f"total_{end}"] for row in ANSWER[phase])
        assert added == pytest.approx(ANSWER[f"{total}_{end}"])
    for row in ANSWER[phase]:
        assert row["calls"] * row["call_s"] == pytest.approx(row["total_s"])
        assert row["bound_by"]


def test_bytes_add_up() -> None:
    parts = sum(ANSWER[f"{part}_bytes_per_gpu"] for part in ("weight", "kv_cache", "activation"))
    assert parts == ANSWER["needed_bytes_per_gpu"] <= ANSWER["usable_bytes_per_gpu"]
    assert ANSWER["largest_batch"] >= 4


def test_rates_have_intervals() -> None:
    for rate in ("request_tokens_per_s", "decode_tokens_per_s", "output_tokens_per_s"):
        assert ANSWER[f"{rate}_low"] < ANSWER[rate] < ANSWER[f"{rate}_high"]


def test_assumptions_are_named() -> None:
    assert any(line.startswith("link: not calibrated") for line in ANSWER["notes"])


def test_operators_may_be_left_out() -> None:
    short = as_dict(FOUND, operators=False)
    assert set(ANSWER) - set(short) == {"prefill", "decode"}
