"""`roofcal time`: products that were measured when asked for stand beside their predictions."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import roofcal
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.paths import RunFolder, run_folders
from roofcal.core.records import Measurement, PlanPoint, Session
from roofcal.health import products
from roofcal.measure import session as session_module
from roofcal.measure.session import Job
from roofcal.study import discover
from tests.roofcal.cli.conftest import Shell
from tests.roofcal.made_up_records import environment_of, session, timed
from tests.roofcal.measure.runs import rig
from tests.roofcal.models.runs import calibration

GPU = environment_of(memory_bytes=1 << 30)
SHAPE: dict[str, Any] = {"m": 4096, "n": 4096, "k": 4096}
FOLDER = Path("results") / GPU.device / GPU.environment_id
Seconds = Callable[[PlanPoint], float | None]


class Measuring:
    """Stands in for a session on the made-up GPU; `seconds` is the time of a point, or None."""

    def __init__(self) -> None:
        self.seconds: Seconds = lambda _: 1e-3
        self.jobs: list[Job] = []
        self.compilers: list[subprocess.Popen[bytes]] = []
        self.compiled_beside: list[bool] = []  # of each session: whether a compiler of its plan ran
        self.busy_share = 0.0

    def start_process(self, command: list[str], stdout: int) -> subprocess.Popen[bytes]:
        """Stands in for the process that compiles; it never ends by itself."""
        python, *words, plan, environment = command
        assert (python, *words) == (sys.executable, "-m", "roofcal", "compile")
        assert all(Path(word.partition("=")[2]).is_file() for word in (plan, environment))
        assert stdout == 2
        self.compilers.append(subprocess.Popen(["sleep", "600"]))
        return self.compilers[-1]

    def __call__(self, job: Job) -> list[Measurement]:
        self.jobs.append(job)
        self.compiled_beside.append(any(one.poll() is None for one in self.compilers))
        own = session(session_id=f"s{len(self.jobs)}", busy_share=self.busy_share)
        rows = []
        for point in read_records(job.plan, PlanPoint):
            seconds = self.seconds(point)
            samples = [] if seconds is None else [seconds * (1 + 1e-4 * n) for n in range(9)]
            row = replace(timed(point, GPU, *samples), session_id=own.session_id)
            refused = {"status": "unsupported", "reason": "k is odd"}
            rows.append(row if samples else replace(row, **refused))  # type: ignore[arg-type]
        write_records(job.out, [own, *rows])
        return rows


@pytest.fixture
def measuring(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Measuring:
    """The made-up GPU, whose calibration is published for environment e1."""
    assert (checkout / "reports/published/made-up/e1").is_dir()
    stand_in = Measuring()
    monkeypatch.setattr(products, "measure", stand_in)
    monkeypatch.setattr(session_module, "subprocess", SimpleNamespace(Popen=stand_in.start_process))
    monkeypatch.setattr(products, "discover", lambda _: [GPU])
    return stand_in


def test_kernels_compile_beside_the_session_and_end_with_it(measuring: Measuring) -> None:
    roofcal.time_products([(64, 64, 64)])
    assert measuring.compiled_beside == [True]
    assert [compiler.poll() for compiler in measuring.compilers] == [-signal.SIGTERM]


def calibrate_here() -> None:
    fitted = calibration(environment=GPU.environment_id)
    write_records(FOLDER / "calibration.jsonl", [fitted])


def test_every_recipe_and_provider_stands_beside_its_prediction(
    measuring: Measuring, shell: Shell
) -> None:
    predicted = roofcal.predict("made-up", recipe="bf16", provider="cublaslt", **SHAPE)
    assert predicted.high_s is not None
    slow = 1.1 * predicted.high_s
    measuring.seconds = lambda p: slow if p.recipe == "bf16" else 1e-3 * len(p.provider)
    answer = shell.json("time 4096x4096x4096 8x16x32")
    rows = answer["products"]
    assert [row["m"] for row in rows] == [4096] * 11 + [8] * 11
    times = [row["measured_s"] for row in rows[:11]]
    assert times == sorted(times)
    (bf16,) = (row for row in rows[:11] if row["recipe"] == "bf16")
    assert bf16["predicted_s"] == predicted.seconds
    assert bf16["excess"] == pytest.approx(slow * 1.0004 / predicted.seconds - 1)
    assert bf16["is_inside"] is False
    assert bf16["measured_low_s"] < bf16["measured_s"] < bf16["measured_high_s"]
    assert (answer["predicted_in"], answer["environment"]) == ("e1", GPU.environment_id)
    axiswise = next(row for row in rows if row["recipe"] == "fp8_axiswise")
    assert (axiswise["predicted_s"], axiswise["is_inside"]) == (None, None)


def test_the_table_is_for_people_and_names_what_has_no_time(
    measuring: Measuring, shell: Shell
) -> None:
    measuring.seconds = lambda p: 1e-3 if p.provider == "cublaslt" else None
    said = shell.text("time 4096 4096 4096 --recipes tensorwise").splitlines()
    places = [place for place, line in enumerate(said) if line.startswith("4096x4096x4096  fp8")]
    first = "4096x4096x4096: fp8_tensorwise by cublaslt took 1 ms"
    assert said[0].startswith(first)
    assert said[0].endswith("casts not counted")
    assert said[places[0]].split()[:4] == ["4096x4096x4096", "fp8_tensorwise", "cublaslt", "1"]
    assert said[places[-1]].endswith("no")
    heads = " ".join(said[: places[-1]])
    assert all(name in heads for name in ("measured", "TFLOP/s", "predicted", "excess", "inside"))
    refused = "4096x4096x4096 fp8_tensorwise by triton has no time: unsupported: k is odd"
    assert said[places[-1] + 1 :] == [
        refused,
        f"measured on made-up, {GPU.environment_id}",
        "intervals of measured times cover the samples of one visit",
        "predicted by model calibrated, e1",
        f"kept in {FOLDER}/asked",
    ]
    measuring.seconds = lambda p: 1e-3 if p.recipe == "bf16" else 8e-4
    said = shell.text("time 4096 4096 4096 --recipes bf16,tensorwise").splitlines()
    assert re.match(
        r".*: fp8_tensorwise by \w+ was the .*, 800.* us, 1.25x bf16, casts not ", said[0]
    )
    measuring.seconds = lambda _: None
    error = shell.refused("time 4096 4096 4096 --recipes tensorwise")
    assert error.startswith("error: nothing has a time:")
    assert refused in error


@pytest.mark.usefixtures("measuring")
def test_predict_and_advise_show_what_was_measured_in_the_environment_of_the_calibration(
    shell: Shell,
) -> None:
    asked = "predict 4096x4096x4096 --device made-up"
    shell.text("time 4096x4096x4096 --recipes bf16")
    assert shell.json(asked)["measured_s"] is None  # e1 is another environment
    calibrate_here()
    assert shell.json(asked)["measured_s"] == pytest.approx(1.0004e-3)
    shell.text("time 4096x8192x4096 --recipes bf16")
    said = shell.text("advise 4096x4096x4096 --device made-up")
    assert "measured at this shape: the bf16 product 4096 x 4096 x 4096 in 1 ms\n" in said
    assert "measured 1.0 doublings away: the bf16 product 4096 x 8192 x 4096 in 1 ms\n" in said


def test_what_is_asked_again_is_measured_again_and_the_newest_counts(
    measuring: Measuring, shell: Shell
) -> None:
    calibrate_here()
    for seconds in (1e-3, 2e-3):
        measuring.seconds = lambda _, seconds=seconds: seconds  # type: ignore[misc]
        shell.text("time 4096x4096x4096 --recipes bf16")
        shell.text("time 64x64x64 --recipes bf16")
    asked = RunFolder.at(FOLDER).asked
    assert all("ok" in job.retry for job in measuring.jobs)
    assert {job.journal for job in measuring.jobs} == {asked.journal_file("gemm")}
    assert len(read_records(asked.plan_file("gemm"), PlanPoint)) == 2
    assert len(read_records(asked.measurements_file("gemm"), Measurement)) == 4
    assert len(read_records(asked.measurements_file("gemm"), Session)) == 4
    answer = shell.json("predict 4096x4096x4096 --device made-up")
    assert answer["measured_s"] == pytest.approx(2.0008e-3)
    assert len(list(asked.folder.iterdir())) == 4  # nothing temporary is left


def test_no_answer_uses_what_was_measured_beside_other_work(
    measuring: Measuring, shell: Shell
) -> None:
    calibrate_here()
    asked = "predict 4096x4096x4096 --device made-up"
    for measuring.busy_share, measured_s in ((0.95, None), (0.0, pytest.approx(1.0004e-3))):
        said = shell.text("time 4096x4096x4096 --recipes bf16")
        is_said = (
            "\ndisturbed, so no other answer uses these times: Other processes kept 95 %" in said
        )
        assert is_said == (measured_s is None)
        assert shell.json(asked)["measured_s"] == measured_s


@pytest.mark.usefixtures("measuring")
def test_a_study_of_the_same_folder_sees_nothing_of_it(shell: Shell) -> None:
    shell.text("time 64x64x64")
    run = RunFolder.at(FOLDER)
    assert [*run.planned_ops(), *run.measured_ops(), *run_folders(Path("results"))] == []


def test_a_device_that_nobody_calibrated_is_measured_all_the_same(
    measuring: Measuring, checkout: Path, shell: Shell
) -> None:
    (checkout / "reports/published/made-up/e1/calibration.jsonl").unlink()
    (checkout / "shapes.csv").write_text("k,n,m\n16,32,64\n")
    answer = shell.json("time --csv shapes.csv --recipes bf16")
    (row,) = answer["products"]
    assert (row["m"], row["n"], row["k"], row["predicted_s"]) == (64, 32, 16, None)
    assert answer["not_predicted"].startswith("not predicted: no calibration of made-up")
    assert len(measuring.jobs) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "time needs sizes, as 4096x28672x8192, or --csv FILE"),
        ("64x64", "'64x64' is no shape of a product: give m, n and k"),
        ("64 64x64x64", "'64' is no shape of a product"),
        ("64x64x64 --recipes fp9", "no study measures recipe 'fp9' on cuda; allowed: bf16, "),
        ("64x64x64 --recipes bf16,128x128", "did you mean 'fp8_blockwise_128x128'?"),
        ("65536x65536x8", "65536x65536x8 needs 8.002 GiB, made-up has 1 GiB; give smaller"),
        ("--csv gone.csv", "gone.csv: cannot be read"),
    ],
)
def test_a_mistake_is_one_message_and_measures_nothing(
    measuring: Measuring, shell: Shell, words: str, says: str
) -> None:
    assert says in shell.refused(f"time {words}")
    assert measuring.jobs == []


@pytest.mark.usefixtures("measuring")
@pytest.mark.parametrize("shape", [(64, 64), (64, 64, 0), (64, 64, 1.5), (64, True, 64)])
def test_python_refuses_what_is_no_shape(shape: Any) -> None:
    with pytest.raises(ValueError, match=r"no shape of a product|is not a whole number"):
        roofcal.time_products([shape])


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="measures a CPU; this has a GPU")
def test_the_cpu_of_this_machine_is_measured(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig(monkeypatch, checkout)  # locks of its own: it waits for no study
    answer = roofcal.time_products([(8, 64, 32)], ["bf16"])
    (row,) = answer.products
    (environment,) = discover.discover(Path("config/devices"))
    assert (row["status"], row["provider"]) == ("ok", "torch_cpu")
    assert 1e-7 < row["measured_low_s"] <= row["measured_s"] <= row["measured_high_s"] < 1
    assert answer.device == environment.device
    (kept,) = read_records(Path(answer.folder) / "journal/gemm.jsonl", Measurement)
    assert kept.settled_samples_s  # how many depends on who else keeps the cores busy
