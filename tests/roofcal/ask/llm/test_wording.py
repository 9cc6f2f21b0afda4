"""The answer for people."""

from roofcal.ask.llm.estimate import curve, estimate
from roofcal.ask.llm.wording import curve_lines, notes, sentences
from tests.roofcal.ask.llm.questions import SOURCES, question


def said(
    name: str = "llama3-8b", recipe: str = "bf16", *, tp: int = 1, pp: int = 1, **load: int
) -> str:
    return sentences(estimate(question(name, recipe, tp, pp, **load), SOURCES))


def test_the_head_says_what_was_asked_and_what_was_found() -> None:
    lines = said(batch=4).splitlines()
    assert lines[0] == "llama3-8b (8.0e9 parameters) in bf16 on 1 x made-up (tp 1, pp 1)"
    assert lines[1] == "batch 4, prompt 2048, output 256; calibrated e1"
    starts = [line.split("  ")[0] for line in lines[3:7]]
    assert starts == ["memory", "first token", "per token", "tokens/s"]
    assert "largest batch" in lines[3]
    assert "(95 %: " in lines[4]
    assert "at 2176 tokens of context" in lines[5]


def test_a_mixture_of_experts_says_what_a_token_uses() -> None:
    assert "qwen3-30b-a3b (30.5e9 parameters, 3.0e9 per token)" in said("qwen3-30b-a3b")


def test_the_table_has_a_row_per_operator_and_its_columns_line_up() -> None:
    lines = said().splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("operator"))
    rows = lines[header + 1 : lines.index("", header)]
    names = ["norm", "qkv", "rope and cache", "attention", "attention_out", "gate_up",
             "activation", "down", "embedding", "head", "total"]  # fmt: skip
    assert [row.split("  ")[0] for row in rows] == names
    end = lines[header].index("share") + len("share")
    assert all(row[end - 1] == "%" for row in rows)


def test_a_pipeline_has_a_bubble_and_an_operator_of_prefill_alone() -> None:
    text = said(batch=16, pp=4)
    assert "bubble       42.9% of prefill, 0.0% of decode" in text
    row = next(line for line in text.splitlines() if line.startswith("pipeline bubble"))
    assert row.endswith("pipeline")


def test_what_was_assumed_is_said() -> None:
    alone = notes(estimate(question(), SOURCES))
    assert alone[0].startswith("attention: assumed 0.55 (0.35 to 0.75)")
    assert not any(line.startswith(("link", "int4")) for line in alone)
    wide = notes(estimate(question("llama3-70b", tp=16), SOURCES))
    assert wide[1] == "link: taken to be as fast between hosts, if 16 GPUs need several"
    small = notes(estimate(question("llama3-8b", "int4"), SOURCES))
    assert any("4.25 bit" in line and "no int4 kernel was measured" in line for line in small)


def test_numbers_keep_three_digits() -> None:
    cells = said("llama3-8b").split("operator")[1]
    assert "e-" not in cells
    assert "e+" not in cells


def test_a_curve_has_a_line_per_batch() -> None:
    points = curve(question(prompt=30000), SOURCES)
    lines = curve_lines(points).splitlines()
    assert lines[1].startswith("batch from 1 to the largest that fits, prompt 30000")
    first = lines.index("") + 2
    rows = lines[first : lines.index("", first)]
    batches = [point.question.workload.batch for point in points]
    assert [int(row.split()[0]) for row in rows] == batches
