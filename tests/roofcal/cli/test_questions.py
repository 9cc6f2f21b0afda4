"""`advise`, `breakeven`, `llm`, `devices`, `table`, `export` and `predict --symbolic` answer."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
import sympy

from roofcal import api
from roofcal.ask.breakeven import COLUMNS
from roofcal.ask.devices import device_sources
from roofcal.core.files import write_bytes
from roofcal.core.jsonl import write_records
from roofcal.models import torchao_formulas as formulas
from roofcal.models.torchao import SETS
from tests.paths import ROOT
from tests.roofcal.cli.conftest import Shell
from tests.roofcal.models.runs import calibration

EIGHT = "llm --device nvidia-h200 --model llama3-70b --recipe fp8_axiswise --tp 8 --batch 16"


@pytest.fixture(autouse=True)
def _published(published_alone: None) -> None:
    """Before `checkout`, where a test takes both."""


def test_advice_names_model_and_providers(shell: Shell, tmp_path: Path) -> None:
    said = shell.text("advise --device nvidia-h200 4096x28672x8192")
    decision = shell.json("advise --device h200 4096x28672x8192")["decision"]
    assert said.startswith(f"Use {decision['recipe']}: {decision['speedup_over_bf16']:.2f}x bf16, ")
    assert decision["casts_included"]
    (tmp_path / "s.csv").write_text("m,n,k\n16,4096,4096\n")
    narrow = f"advise --device h200 --shapes {tmp_path}/s.csv --recipes bf16"
    assert [row["recipe"] for row in shell.json(narrow)] == ["bf16"]
    linear = shell.text("predict --device h200 --op linear --recipe fp8_axiswise 4096x4096x4096")
    assert "of the linear forward and backward, casts included" in linear
    shell.text(f"advise --device h200 --shapes {tmp_path}/s.csv --out {tmp_path}/o.csv")
    assert len((tmp_path / "o.csv").read_text().splitlines()) == 2
    (row,) = shell.json(f"advise --device h200 --shapes {tmp_path}/s.csv")
    assert (row["m"], row["predicted_s"] > 0) == (16, True)
    waves = shell.text("advise --device amd-mi355x --by wave 4096x28672x8192")
    assert "model wave, amd-mi355x, its wave description" in waves


@pytest.mark.usefixtures("checkout")
def test_breakeven_answers_by_a_datasheet_and_for_the_rule_of_a_run(shell: Shell) -> None:
    said = shell.text("breakeven --device b200 --recipe fp8_axiswise 4096x4096 --by torchao")
    for words in (
        "no interval",
        "weights cast beforehand",
        "this model does not tell providers apart",
        "model torchao, nvidia-b200, its datasheet",
    ):
        assert words in said
    run, out = "reports/published/made-up/e1", "results/replay/made-up/e1/breakeven.csv"
    shell.text(f"breakeven --run {run} --calibration {run}/calibration.jsonl --out {out}")
    header, first, *_ = Path(out).read_text().splitlines()
    assert header == ",".join(COLUMNS)
    assert first.startswith("fp8_tensorwise,forward,none,16,512,512,")


def test_every_model_of_time_answers_and_says_who_it_is(shell: Shell) -> None:
    steps = {}
    for by in ("calibrated", "wave", "torchao", "datasheet"):
        answer = shell.json(f"{EIGHT} --chunk 4096 --by {by}")
        steps[by] = answer["decode_step_s"]
        assert (answer["by"], answer["chunk_tokens"]) == (by, 4096)
        assert answer["products_by"] == ("cublaslt" if by == "calibrated" else "any")
        assert (answer["decode_step_low_s"] is None) == (by != "calibrated")
        assert {row["operator"] for row in answer["decode"]} > {"qkv", "attention", "all-reduce"}
    assert steps["datasheet"] == min(steps.values())
    waves = "llm --model examples/llama-65b.yaml --device amd-mi300x --by wave --tp 2 --pp 4"
    said = shell.text(waves)
    assert "llama-65b (65.3e9 parameters) in bf16 on 8 x amd-mi300x" in said
    assert "by wave, which states no interval" in said
    assert "95 %" not in said


def test_a_datasheet_answers_for_every_device_and_model(shell: Shell) -> None:
    devices, models = (
        sorted(path.stem for path in (ROOT / "config" / folder).glob("*.yaml"))
        for folder in ("devices", "models")
    )
    asked = [(device, "llama3-8b") for device in devices] + [("nvidia-h200", m) for m in models]
    for device, model in asked:
        answer = shell.json(f"llm --device {device} --model {model} --by datasheet")
        assert answer["needed_bytes_per_gpu"] <= answer["usable_bytes_per_gpu"]
        assert 0 < answer["decode_step_s"] < answer["first_token_s"] * answer["pipeline_parallel"]


def test_curves_and_sweeps_are_lines_or_json(shell: Shell) -> None:
    curve = "llm --device h200 --model llama3-8b --prompt 30000 --curve"
    points = shell.json(curve)["curve"]
    assert [point["batch"] for point in points][:3] == [1, 2, 4]
    assert points[-1]["batch"] == points[0]["largest_batch"]
    lines = shell.text(curve).splitlines()
    most = points[-1]
    said = " ".join(lines[:2])
    assert said.startswith(f"One request gets {points[0]['request_tokens_per_s']:.1f} tokens/s in ")
    assert f" {most['batch']}, the most that fit, get " in said
    assert f" each and {most['decode_tokens_per_s']:.1f} together, " in said
    assert lines[3].startswith("batch from 1 to the largest that fits, prompt 30000")
    rows = lines[lines.index("") + 2 :]
    assert [int(row.split()[0]) for row in rows[: len(points)]] == [p["batch"] for p in points]
    sweep = "llm --device h200 --model llama3-70b --by wave --sweep"
    answer = shell.json(sweep)
    cuts = {
        (row["tensor_parallel"], row["pipeline_parallel"])
        for row in answer["sweep"] + answer["too_large"]
    }
    assert cuts == {(t, p) for t in (1, 2, 4, 8) for p in (1, 2, 4, 8) if t * p <= 8}
    said = shell.text(sweep)
    assert "tp 1 pp 1: does not fit, one request needs" in said
    assert "tokens/s each" in said


def test_the_table_of_a_run_is_csv_with_every_model(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"  # all of them take five seconds
    models.mkdir()
    shutil.copy(ROOT / "config/models/llama3-405b.yaml", models)
    monkeypatch.setattr("roofcal.core.paths.MODELS", models)
    (run,) = (ROOT / "reports/published/nvidia-h200").iterdir()
    shell.text(f"llm --run {run} --out {tmp_path}/llm.csv")
    header, *rows = (tmp_path / "llm.csv").read_text().splitlines()
    assert header.startswith("model,recipe,tensor_parallel,pipeline_parallel,")
    assert {row.split(",")[0] for row in rows} == {"llama3-405b"}


def test_devices_are_listed_with_what_was_measured(shell: Shell) -> None:
    measured = shell.text("devices").partition("described by a datasheet alone:\n")[0]
    assert "probe_" not in measured
    rows = {row["device"]: row for row in shell.json("devices")}
    assert list(rows) == list(api.devices())
    assert rows["nvidia-l40s"]["environments"] == []
    assert rows["nvidia-l40s"]["models"] == ["torchao", "datasheet"]
    (environment,) = rows["nvidia-h100-sxm"]["environments"]
    assert environment["published"]
    assert (Path(environment["folder"]) / "calibration.jsonl").is_file()


def test_what_was_measured_here_comes_first_and_the_latest_of_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.setattr("roofcal.core.paths.RESULTS", Path("results"))
    for folder in (
        "results/made-up/e1",
        "results/made-up/e2",
        "results/replay/made-up/e3",
        "reports/published/made-up/e1",
        "results/replay/other/e1",
        "reports/published/other/e2",
    ):
        write_bytes(checkout / folder / "environment.jsonl", b"")
        own = calibration(Path(folder).parent.name, Path(folder).name)
        write_records(checkout / folder / "calibration.jsonl", [own])
    rows = {row["device"]: row for row in shell.json("devices")}
    environments = rows["made-up"]["environments"]
    names = [(run["environment"], run["published"]) for run in environments]
    assert names == [("e2", False), ("e1", False), ("e3", True), ("e1", True)]
    for device, first in (("made-up", "e2"), ("other", "e1")):
        _, answering = device_sources(device, None, "calibrated")
        assert rows[device]["environments"][0]["folder"] == answering.as_posix()
        assert api.devices()[device][0] == first == answering.name
    assert (rows["made-up"]["memory_bytes"], rows["made-up"]["models"]) == (None, ["calibrated"])


@pytest.mark.parametrize("command", ["predict", "advise"])
def test_a_part_of_several_ids_is_the_measured_device_and_a_note_says_so(
    command: str, shell: Shell
) -> None:
    assert "nvidia-h100-sxm, driver" in shell.text(f"{command} 64x4096x4096 --device h100")
    note = "note: 'h100' is taken as nvidia-h100-sxm, which was measured; not "
    assert shell.err.startswith(note)


def test_a_table_has_the_same_rows_in_every_format(shell: Shell) -> None:
    texts = {
        style: shell.text(f"table --device h200 --op cast --format {style}")
        for style in ("csv", "json", "markdown")
    }
    rows = list(csv.DictReader(io.StringIO(texts["csv"])))
    assert {row["provider"] for row in rows} == {"torch_compile", "triton"}
    assert all(float(row["median_s"]) > 0 for row in rows if row["status"] == "ok")
    assert len(json.loads(texts["json"])) == len(rows)
    lines = [line for line in texts["markdown"].splitlines() if line.startswith("|")]
    assert len(lines) == len(rows) + 2  # its header and the rule below it


def test_an_export_says_whose_constants_it_holds_and_how_to_make_it_again(
    checkout: Path, shell: Shell
) -> None:
    device = checkout / "reports/published/nvidia-h200"
    device.symlink_to(ROOT / "reports/published/nvidia-h200")
    found = json.loads(shell.text("export --device nvidia-h200 --format json"))
    assert found["environment"]["device_name"] == "NVIDIA H200"
    assert f"from: reports/published/nvidia-h200/{found['environment_id']}" in shell.err
    command = found["made_by"].removeprefix("roofcal ")
    assert shell.text(f"{command} --out a/second.json") == ""
    assert json.loads(Path("a/second.json").read_text()) == found
    without_records = shell.text("export --device made-up --format csv")
    assert "made-up,e1,dram_copy_bytes_per_s,4000000000000.0," in without_records


H100 = SETS["torchao-2025"]["nvidia-h100-sxm"]
B300 = SETS["torchao-0.18.0"]["nvidia-b300"]
SIZES = (4096, 14336, 1000)
EXPRESSIONS = [
    ("h100-sxm --recipe tensorwise", formulas.product_expression(H100, "tensorwise")),
    ("h100-sxm --recipe rowwise --linear --fused",
     formulas.linear_expression(H100, "rowwise", fused=True)),
    ("nvidia-b300 --recipe blockwise --role weight",
     formulas.cast_expression(B300, "blockwise", "weight", fused=False)),
    ("nvidia-b300 --recipe nvfp4_static --inference",
     formulas.inference_expression(B300, "nvfp4_static")),
]  # fmt: skip


@pytest.mark.parametrize(("options", "expected"), EXPRESSIONS, ids=lambda one: str(one)[:40])
def test_an_expression_is_the_formula(options: str, expected: sympy.Expr, shell: Shell) -> None:
    said = shell.text(f"predict --by torchao --symbolic --device {options}")
    m, k, n = sympy.symbols("M K N", integer=True, positive=True)
    expression = sympy.sympify(said, locals={"M": m, "K": k, "N": n})
    value = float(expression.subs(dict(zip((m, k, n), SIZES, strict=True))))
    assert value == pytest.approx(formulas.evaluate(expected, *SIZES), rel=1e-12)
    origin = {"h100-sxm": "torchao-2025 of nvidia-h100-sxm"}
    whose = origin.get(options.split(maxsplit=1)[0], "torchao-0.18.0 of nvidia-b300")
    assert shell.err == f"from: constants {whose}\n"


def test_with_sizes_the_value_of_an_expression_follows(shell: Shell) -> None:
    said = shell.text("predict --by torchao --symbolic --device h200 8192x8192x8192")
    value, unit, where = said.splitlines()[1].split(" ", 2)
    assert float(value) == pytest.approx(2 * 8192**3 / 989.5e12 / 0.78, rel=1e-3)
    assert (unit, where) == ("s", "at M=8192, K=8192, N=8192")
    assert shell.err == "from: constants datasheet of nvidia-h200\n"
