"""The answer for people."""

import re
from dataclasses import replace

from roofcal.ask.devices import datasheet
from roofcal.ask.llm.estimate import estimate, estimates_by_batch, notes_of_all
from roofcal.ask.llm.operator_models import CalibratedOperators
from roofcal.ask.llm.sweep import Curve, sweep
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, calibrated, deployment
from tests.roofcal.ask.published_run import published_calibration


def text_of(
    name: str = "llama3-8b", recipe: str = "bf16", *, tp: int = 1, pp: int = 1, **load: int
) -> str:
    return str(estimate(deployment(name, recipe, tp, pp, **load), SOURCES))


def test_the_text_starts_with_the_deployment_memory_and_times() -> None:
    lines = text_of(batch=4).splitlines()
    assert lines[0] == "llama3-8b (8.0e9 parameters) in bf16 on 1 x made-up (tp 1, pp 1)"
    assert lines[1] == "batch 4, prompt 2048, output 256; calibrated e1"
    starts = [line.split("  ")[0] for line in lines[3:7]]
    assert starts == ["memory", "first token", "per token", "tokens/s"]
    assert "largest batch" in lines[3]
    assert "(95 %: " in lines[4]
    assert "at 2176 tokens of context" in lines[5]
    assert "per GPU in decode" not in lines[6]
    assert "qwen3-30b-a3b (30.5e9 parameters, 3.0e9 per token)" in text_of("qwen3-30b-a3b")
    (rates,) = [line for line in text_of(tp=2).splitlines() if line.startswith("tokens/s")]
    rate = estimate(deployment(tp=2), SOURCES).decode_tokens_per_s.value / 2
    assert rates.endswith(f"; {rate:.4g} per GPU in decode")


def test_the_table_has_a_row_per_operator_and_its_columns_line_up() -> None:
    lines = text_of().splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("operator"))
    rows = lines[header + 1 : lines.index("", header)]
    names = ["norm", "qkv", "rope and cache", "attention", "attention_out", "gate_up",
             "activation", "down", "embedding", "head", "total"]  # fmt: skip
    assert [row.split("  ")[0] for row in rows] == names
    end = lines[header].index("share") + len("share")
    assert all(row[end - 1] == "%" for row in rows)
    assert not any("e-" in row or "e+" in row for row in rows)


def test_a_pipeline_has_a_bubble_and_an_operator_of_prefill_alone() -> None:
    text = text_of(batch=16, pp=4)
    assert "bubble       42.9% of prefill, 0.0% of decode" in text
    row = next(line for line in text.splitlines() if line.startswith("pipeline bubble"))
    assert row.endswith("pipeline")


def test_assumptions_are_listed() -> None:
    alone = estimate(deployment(), SOURCES).notes()
    assert alone[0] == "products by cublaslt"
    assert alone[1].startswith("attention: assumed 0.55 (0.35 to 0.75)")
    assert not any(line.startswith(("link", "int4", "casts")) for line in alone)
    wide = estimate(deployment("llama3-70b", tp=16), SOURCES).notes()
    assert wide[1].endswith("as fast between hosts as within one, where 16 GPUs take several hosts")
    small = estimate(deployment("llama3-8b", "int4"), SOURCES).notes()
    assert any(
        "4.25 bit" in line and "no int4 kernel was calibrated: cublaslt (bf16) is" in line
        for line in small
    )
    assert "products by cublaslt (bf16), cublaslt" in small


def test_casts_are_called_calibrated_where_they_were() -> None:
    assert (
        "casts: not calibrated, timed as their least bytes at the copy bandwidth"
        in estimate(deployment("llama3-8b", "fp8_tensorwise"), SOURCES).notes()
    )
    times = CalibratedOperators(calibration=calibrated(), spec=LINKED)
    assert "casts by the fastest provider that was calibrated" in times.assumptions("fp8_axiswise")


def test_a_sweep_calls_the_link_of_each_cut_what_its_estimate_calls_it() -> None:
    pair = {f"link__{name}__2__bytes_per_s": 4e11 for name in ("all_reduce", "all_gather")}
    pair |= {name.replace("bytes_per_s", "latency_s"): 1e-5 for name in pair}
    constants = {name.removeprefix("link__"): value for name, value in pair.items()}
    linked = replace(SOURCES, calibration=calibrated(**constants))
    swept = sweep(deployment("llama3-8b"), linked, "calibrated", 4)
    links = [line for line in str(swept).splitlines() if line.startswith("link: ")]
    assert links[0] == "link: calibrated (tp x pp: 2 x 1)"
    assert links[1].startswith("link: not calibrated, assumed 0.7")
    assert links[1].endswith("(tp x pp: 1 x 2, 4 x 1, 2 x 2, 1 x 4)")
    for (tensor, pipeline), answers in swept.estimates.items():
        link = estimate(deployment("llama3-8b", tp=tensor, pp=pipeline), linked).link
        assert {answer.link for answer in answers} == {link}
        (stated,) = [line for line in links if link and f" {tensor} x {pipeline}" in line] or [""]
        assert stated.startswith(link or "")


def test_every_line_of_any_batch_is_said_with_the_batches_that_it_holds_for() -> None:
    published = Sources(calibration=published_calibration(), spec=datasheet("nvidia-h200"))
    answers = estimates_by_batch(deployment("llama3-70b", "int4"), published)
    stated = notes_of_all(answers)
    own = {answer.deployment.workload.batch: answer.notes() for answer in answers}
    assert len({line for lines in own.values() for line in lines if "products of" in line}) > 1
    for line in (line for lines in own.values() for line in lines if "extrapolated" not in line):
        batches = [batch for batch, lines in own.items() if line in lines]
        of_all = len(batches) == len(own)
        assert (line if of_all else f"{line} (batch {', '.join(map(str, batches))})") in stated


def test_what_is_extrapolated_in_any_answer_is_summed_up_in_a_line_of_each_phase() -> None:
    published = Sources(calibration=published_calibration(), spec=datasheet("nvidia-h200"))
    swept = sweep(deployment("llama3-70b"), published, "calibrated", 2)
    stated = [line for line in str(swept).splitlines() if line.startswith("extrapolated")]
    assert [line.partition(" of ")[2].partition(",")[0] for line in stated] == ["prefill", "decode"]
    of_any = {
        operator.name
        for answer in swept.answers
        for operator in answer.prefill.operators
        if operator.doublings
    }
    names = stated[0].removeprefix("extrapolated: ").partition(" of ")[0]
    assert set(names.split(", ")) == of_any
    assert re.search(
        r"\d+% to \d+% of its time; .* range \(tp x pp: 1 x 2, batch \d+\);", stated[0]
    )


def test_operators_beyond_the_probes_are_named() -> None:
    calibration = SOURCES.calibration
    assert calibration is not None
    span = {"m": (1.0, 256.0), "n": (1024.0, 8192.0), "k": (1024.0, 8192.0)}
    spans = {"gemm.cublaslt.bf16": span}
    probed = replace(SOURCES, calibration=replace(calibration, probe_spans=spans))
    answer = estimate(deployment(), probed)
    (prefill,) = (line for line in answer.notes() if "of prefill" in line)
    assert prefill.startswith("extrapolated: qkv, attention_out, gate_up, down, head of prefill, ")
    assert "head lies 4.0 doublings outside the probed range" in prefill
    assert answer.decode.total.high_s > estimate(deployment(), SOURCES).decode.total.high_s
    assert not any("extrapolated" in line for line in estimate(deployment(), SOURCES).notes())


def test_throughput_against_latency_has_a_line_per_batch() -> None:
    estimates = estimates_by_batch(deployment(prompt=30000), SOURCES)
    lines = str(Curve(estimates=estimates)).splitlines()
    assert lines[1].startswith("batch from 1 to the largest that fits, prompt 30000")
    first = lines.index("") + 2
    rows = lines[first : lines.index("", first)]
    batches = [answer.deployment.workload.batch for answer in estimates]
    assert [int(row.split()[0]) for row in rows] == batches
