"""The command line: real commands on small records, one message and exit code 2 for mistakes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from roofcal.cli import main
from roofcal.records import Calibration, PlanPoint, Prediction, read_records, write_records
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.predict.runs import calibration, product

ROOT = Path(__file__).resolve().parents[2]
POINT = ["--device", "made-up", "--m", "16", "--n", "4096", "--k", "8192"]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout with the project's configuration, and a published made-up device."""
    (tmp_path / "config").symlink_to(ROOT / "config")
    folder = tmp_path / "reports/published/made-up/e1"
    write_records(folder / "calibration.jsonl", [calibration()])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert "Traceback" not in message
    return message


@pytest.mark.usefixtures("checkout")
def test_predict_says_time_interval_bound_rates_and_where_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["predict", "--recipe", "bf16", *POINT]) == 0
    said = capsys.readouterr().out
    assert "us (95 %: " in said
    assert "bound by dram" in said
    assert "TFLOP/s" in said
    assert "model calibrated, made-up, e1" in said


@pytest.mark.usefixtures("checkout")
def test_predict_for_programs_is_json_in_si_units(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--recipe", "bf16", "--json", *POINT]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["predicted_low_s"] < answer["predicted_s"] < answer["predicted_high_s"]
    assert (answer["m"], answer["op"], answer["environment"]) == (16, "gemm", "e1")


def test_predict_adds_columns_to_a_csv(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "p.csv").write_text("recipe,m,n,k\nbf16,16,4096,8192\n")
    assert main(["predict", "--device", "made-up", "--points", "p.csv", "--out", "o.csv"]) == 0
    header, row = (checkout / "o.csv").read_text().splitlines()
    assert header == "recipe,m,n,k,predicted_s,predicted_low_s,predicted_high_s,bound_by"
    assert row.startswith("bf16,16,4096,8192,")
    assert "calibration: reports/published/made-up/e1" in capsys.readouterr().err


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["predict"], "needs --device"),
        (["predict", "--device", "made-p"], "did you mean 'made-up'"),
        (["predict", *POINT, "--recipe", "bf61"], "did you mean 'bf16'"),
        (["predict", *POINT, "--op", "gem"], "did you mean 'gemm'"),
        (["predict", "--device", "made-up", "--m", "4"], "op gemm needs --n --k"),
        (["predict", *POINT, "--model", "datasheet"], "config/devices/made-up.yaml"),
        (["predict", "--device", "made-up", "--points", "no.csv"], "no.csv: cannot be read"),
        (["calibrate", "--run", "no", "--out", "x"], "no such records file"),
        (["table", "--device", "nothing", "--op", "gemm"], "nothing"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in fails(capsys, *arguments)


@pytest.mark.parametrize("size", ["0", "-1", "1.5", "many"])
def test_a_size_is_a_whole_number_above_zero(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["predict", "--device", "made-up", "--m", size])
    assert caught.value.code == 2
    assert "is not a whole number above 0" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "file").write_text("in the way")
    run = write_run(checkout / "run")
    assert "file" in fails(capsys, "calibrate", "--run", str(run), "--out", "file/c.jsonl")


def test_calibrate_and_predict_as_the_rules_call_them(checkout: Path) -> None:
    run = write_run(checkout / "results/made-up/e1", noise=0.01)
    write_records(run / "plan/gemm.jsonl", [product(64, 64, 64)])
    fitted = run / "calibration.jsonl"
    assert main(["calibrate", "--run", str(run), "--out", str(fitted)]) == 0
    assert read_records(fitted, Calibration)[0].environment_id == ENVIRONMENT.environment_id
    out = run / "predictions/gemm.jsonl"
    rest = ["--calibration", str(fitted), "--op", "gemm", "--out", str(out)]
    assert main(["predict", "--run", str(run), *rest]) == 0
    assert [p.model for p in read_records(out, Prediction)] == ["calibrated"]


def test_plan_writes_the_points_of_a_slice(checkout: Path) -> None:
    write_records(checkout / "environment.jsonl", [ENVIRONMENT])
    plan_slice = {
        "op": "gemm",
        "seed": 0,
        "contenders": {"bf16": ["cublaslt"]},
        "sweeps": {"s": {"cubes": [64, 128]}},
        "models": {},
        "sentinel": None,
    }
    arguments = ["--environment", "environment.jsonl", "--slice", json.dumps(plan_slice)]
    assert main(["plan", *arguments, "--out", "plan.jsonl"]) == 0
    points = read_records(checkout / "plan.jsonl", PlanPoint)
    assert sorted(point.shape["m"] for point in points) == [64, 128]


@pytest.mark.usefixtures("checkout")
def test_plan_without_a_file_counts_points(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--study", "quick"]) == 0
    said = capsys.readouterr().out
    assert "probe_math" in said
    assert "points in" in said


@pytest.mark.usefixtures("checkout")
def test_doctor_says_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    for title in ("Processors", "Software", "Machine", "A study here"):
        assert title in said


def test_doctor_writes_the_environment_of_a_cluster_node(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--write-environment", "results"]) == 0
    path = Path(capsys.readouterr().out.strip().splitlines()[0])
    assert (checkout / path).is_file()
    assert path.name == "environment.jsonl"


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "roofcal", "--help"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in ("doctor", "plan", "measure", "calibrate", "predict", "table", "report", "publish"):
        assert name in said
