"""`predict`: times with intervals for people and for programs, of points, a CSV and a run."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Calibration, Prediction
from roofcal.ops import OPS
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.cli.conftest import Shell
from tests.roofcal.models.runs import calibration, product


def test_predict_adds_columns_to_a_csv(checkout: Path, shell: Shell) -> None:
    (checkout / "p.csv").write_text("recipe,m,n,k\nbf16,16,4096,8192\n")
    shell.text("predict --device made-up --points p.csv --out o.csv")
    assert "from: reports/published/made-up/e1" in shell.err
    header, row = (checkout / "o.csv").read_text().splitlines()
    answers = "predicted_s,predicted_low_s,predicted_high_s,bound_by"
    assert header == f"recipe,m,n,k,{answers},provider,extrapolated_doublings,unprobed,refused"
    assert row.startswith("bf16,16,4096,8192,")
    (checkout / "p.csv").write_text("recipe,rows,cols\nfp8_tensorwise,4096,8192\n")
    of_casts = "predict --device nvidia-h200 --by datasheet --op cast"
    (row,) = shell.json(f"{of_casts} --points p.csv")
    alone = shell.json(f"{of_casts} --recipe fp8_tensorwise 4096x8192")
    assert row["predicted_s"] == pytest.approx(alone["predicted_s"], rel=1e-5)


@pytest.mark.usefixtures("few_resamples")
def test_calibrate_and_predict_as_the_rules_call_them(checkout: Path, shell: Shell) -> None:
    run = write_run(checkout / "results/made-up/e1", noise=0.01)
    write_records(run / "plan/gemm.jsonl", [product(64, 64, 64, provider="made")])
    fitted, out = "deep/calibration.jsonl", run / "predictions/gemm.jsonl"
    shell.text(f"calibrate --run {run} --out {fitted}")
    (constants,) = read_records(Path(fitted), Calibration)
    assert constants.environment_id == ENVIRONMENT.environment_id
    assert constants.constants
    shell.text(f"predict --run {run} --calibration {fitted} --op gemm --out {out}")
    assert [p.model for p in read_records(out, Prediction)] == ["calibrated"]


@pytest.mark.parametrize(
    ("device", "also", "models"),
    [
        ("nvidia-h200", [], ["datasheet", "torchao", "wave", "calibrated"]),
        ("made-up", ["e2"], ["calibrated", "calibrated@e2"]),
    ],
)
def test_a_run_is_predicted_by_every_model_and_calibration(
    checkout: Path, device: str, also: list[str], models: list[str], shell: Shell
) -> None:
    run = checkout / "results" / device / "e1"
    write_records(run / "plan/gemm.jsonl", [replace(product(64, 64, 64), device=device)])
    for name in ("e1", *also):
        fitted = run.parent / name / "calibration.jsonl"
        write_records(fitted, [calibration(device, name)])
    others = " ".join(f"--also {run.parent / name}/calibration.jsonl" for name in also)
    shell.text(f"predict --run {run} --op gemm {others}")
    found = read_records(run / "predictions/gemm.jsonl", Prediction)
    assert sorted(p.model for p in found) == sorted(models)


@pytest.mark.usefixtures("checkout")
def test_a_block_has_an_option_for_each_of_its_sizes_and_help_names_every_op(shell: Shell) -> None:
    sizes = "--tokens 4096 --sequence 2048 --hidden 4096 --intermediate 14336 --heads 32"
    block = "predict --op transformer_block --device nvidia-h200 --by datasheet"
    answer = shell.json(f"{block} {sizes} --head-dim 128 --kv-heads 8")
    assert (answer["tokens"], answer["kv_heads"], answer["head_dim"]) == (4096, 8, 128)
    text = shell.text("predict --help")
    assert [op.name for op in OPS if op.role == "study" and op.name not in text] == []
