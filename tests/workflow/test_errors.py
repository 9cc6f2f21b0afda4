"""What a user sees who made a mistake: all of it at once, no traceback, exit code 2."""

import pytest

from tests.workflow.checkout import Checkout
from tests.workflow.forked_snakemake import ENVIRONMENT

pytestmark = pytest.mark.slow


def refused(checkout: Checkout, *arguments: str) -> str:
    """What Snakemake says; fails unless it refuses as promised."""
    done = checkout.snakemake("--dry-run", *arguments)
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stdout
    assert done.stdout.count("error: ") == 1
    return done.stdout


def test_all_errors_of_all_config_files_are_reported_together(fresh: Checkout) -> None:
    fresh.replace("config/config.yaml", "study: quick", "study: quik")
    fresh.replace("config/sweeps/gemm.yaml", "cubes: [64, 128]", "cubes: [64, -1]")
    fresh.replace("config/sweeps/cast.yaml", "fp8_tensorwise: [torch_eager]", "fp9: [torch_eager]")

    said = refused(fresh)

    for file in ("config/config.yaml", "config/sweeps/gemm.yaml", "config/sweeps/cast.yaml"):
        assert file in said


def test_a_file_that_is_not_yaml_is_named(fresh: Checkout) -> None:
    fresh.write("config/config.yaml", "study: [quick\n")

    assert "config/config.yaml" in refused(fresh)


def test_a_bad_value_on_the_command_line_is_named(fresh: Checkout) -> None:
    assert "study" in refused(fresh, "--config", "study=huge")


def test_a_listed_device_without_environment_is_told_how_to_take_it(fresh: Checkout) -> None:
    said = refused(fresh, "--config", "devices=[nvidia-h200/unknown]")

    assert "nvidia-h200/unknown" in said
    assert "python -m roofcal doctor --write-environment results" in said


@pytest.mark.parametrize("home", ["a_file/home", "a_file"])
def test_a_home_that_cannot_be_written_is_no_error(
    fresh: Checkout, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    fresh.write("a_file", "")
    monkeypatch.setitem(ENVIRONMENT, "HOME", str(fresh.folder / home))
    assert "Traceback" not in fresh.run("--dry-run")


def test_gpus_that_are_hidden_are_said_at_the_start(fresh: Checkout) -> None:
    fresh.write("hidden.txt", "CUDA_VISIBLE_DEVICES='' hides all NVIDIA GPUs of this machine\n")
    assert "note: CUDA_VISIBLE_DEVICES='' hides all NVIDIA GPUs" in fresh.run("--dry-run")


def test_nothing_to_measure_and_nothing_to_replay_is_an_error(fresh: Checkout) -> None:
    assert "devices" in refused(fresh, "--config", "devices=[]")


def test_a_syntax_error_in_a_kernel_is_not_taken_for_up_to_date(finished: Checkout) -> None:
    kernel = finished.folder / "kernels/streams/empty.py"
    kernel.write_text(kernel.read_text() + "def broken(:\n")

    assert f"kernels/streams/empty.py:{len(kernel.read_text().splitlines())}: " in refused(finished)
