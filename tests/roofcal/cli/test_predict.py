"""`predict`: times with intervals for people and for programs, of points, a CSV and a run."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.cli.main import main
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Calibration, Prediction
from roofcal.ops import OPS
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.models.runs import calibration, product

POINT = ["--device", "made-up", "--m", "16", "--n", "4096", "--k", "8192"]


@pytest.mark.usefixtures("checkout")
def test_predict_says_time_interval_bound_rates_and_where_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["predict", "--recipe", "bf16", *POINT]) == 0
    said = capsys.readouterr().out
    whose = "model calibrated, provider cublaslt, made-up, e1"
    for words in ("us (95 %: ", "bound by dram", "TFLOP/s", whose):
        assert words in said
    assert main(["predict", "--recipe", "bf16", "--json", *POINT]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["predicted_low_s"] < answer["predicted_s"] < answer["predicted_high_s"]
    assert (answer["m"], answer["op"], answer["environment"]) == (16, "gemm", "e1")


def test_predict_adds_columns_to_a_csv(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "p.csv").write_text("recipe,m,n,k\nbf16,16,4096,8192\n")
    assert main(["predict", "--device", "made-up", "--points", "p.csv", "--out", "o.csv"]) == 0
    header, row = (checkout / "o.csv").read_text().splitlines()
    answers = "predicted_s,predicted_low_s,predicted_high_s,bound_by"
    assert header == f"recipe,m,n,k,{answers},provider,extrapolated_doublings,unprobed,refused"
    assert row.startswith("bf16,16,4096,8192,")
    assert "from: reports/published/made-up/e1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("op", "recipe", "axes"),
    [
        ("gemm", "fp8_axiswise", "mnk"),
        ("linear", "fp8_axiswise", "mnk"),
        ("mixed_gemm", "int4_groupwise_g64", "mnk"),
        ("cast", "fp8_tensorwise", ("rows", "cols")),
    ],
)
def test_a_csv_is_answered_for_the_op_that_is_named(
    checkout: Path, op: str, recipe: str, axes: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ("4096", "8192", "1024")[: len(axes)]
    (checkout / "p.csv").write_text(f"recipe,{','.join(axes)}\n{recipe},{','.join(sizes)}\n")
    asked = ["predict", "--device", "nvidia-h200", "--model", "datasheet", "--op", op, "--json"]
    assert main([*asked, "--points", "p.csv"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert main([*asked, "--recipe", recipe, *sizes]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert row["predicted_s"] == pytest.approx(alone["predicted_s"], rel=1e-5)
    assert [row[axis] for axis in axes] == [alone[axis] for axis in axes]


@pytest.mark.usefixtures("few_resamples")
def test_calibrate_and_predict_as_the_rules_call_them(checkout: Path) -> None:
    run = write_run(checkout / "results/made-up/e1", noise=0.01)
    write_records(run / "plan/gemm.jsonl", [product(64, 64, 64, provider="made")])
    fitted = run / "calibration.jsonl"
    assert main(["calibrate", "--run", str(run), "--out", str(fitted)]) == 0
    assert read_records(fitted, Calibration)[0].environment_id == ENVIRONMENT.environment_id
    out = run / "predictions/gemm.jsonl"
    rest = ["--calibration", str(fitted), "--op", "gemm", "--out", str(out)]
    assert main(["predict", "--run", str(run), *rest]) == 0
    assert [p.model for p in read_records(out, Prediction)] == ["calibrated"]


def test_a_run_of_a_described_device_is_predicted_by_waves(checkout: Path) -> None:
    run = checkout / "results/nvidia-h200/e1"
    write_records(run / "plan/gemm.jsonl", [replace(product(64, 64, 64), device="nvidia-h200")])
    write_records(run / "calibration.jsonl", [calibration("nvidia-h200")])
    assert main(["predict", "--run", str(run), "--op", "gemm"]) == 0
    models = {p.model for p in read_records(run / "predictions/gemm.jsonl", Prediction)}
    assert models == {"datasheet", "torchao", "wave", "calibrated"}


def test_calibrations_of_other_environments_predict_a_run_too(checkout: Path) -> None:
    run = checkout / "results/made-up/e1"
    write_records(run / "plan/gemm.jsonl", [product(64, 64, 64)])
    for name in ("e1", "e2"):
        write_records(run.parent / name / "calibration.jsonl", [calibration("made-up", name)])
    also = ["--also", str(run.parent / "e2/calibration.jsonl")]

    assert main(["predict", "--run", str(run), "--op", "gemm", *also]) == 0

    found = read_records(run / "predictions/gemm.jsonl", Prediction)
    assert [p.model for p in found] == ["calibrated", "calibrated@e2"]


BLOCK = "--tokens 4096 --sequence 2048 --hidden 4096 --intermediate 14336 --heads 32 --head-dim 128"


@pytest.mark.usefixtures("checkout")
def test_a_block_has_an_option_for_each_of_its_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    block = ["predict", "--op", "transformer_block", "--device", "nvidia-h200", *BLOCK.split()]
    assert main([*block, "--model", "datasheet", "--kv-heads", "8", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["tokens"], answer["kv_heads"], answer["head_dim"]) == (4096, 8, 128)


def test_help_names_every_op_of_the_study(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["predict", "--help"])
    text = capsys.readouterr().out
    assert [op.name for op in OPS if op.role == "study" and op.name not in text] == []
