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

    said = refused(fresh, "--config", "published=perhaps")

    for part in ("config.yaml: study", "sweeps/gemm.yaml", "sweeps/cast.yaml", "yaml: published"):
        assert part in said


def test_a_home_that_cannot_be_written_is_no_error_and_hidden_gpus_are_said(
    fresh: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh.write("a_file", "")
    fresh.write("hidden.txt", "CUDA_VISIBLE_DEVICES='' hides all NVIDIA GPUs of this machine\n")
    monkeypatch.setitem(ENVIRONMENT, "HOME", str(fresh.folder / "a_file/home"))
    said = fresh.run("--dry-run")
    assert "Traceback" not in said
    assert "note: CUDA_VISIBLE_DEVICES='' hides all NVIDIA GPUs" in said


def test_a_syntax_error_in_a_kernel_is_not_taken_for_up_to_date(finished: Checkout) -> None:
    kernel = finished.folder / "kernels/streams/memory.py"
    text = kernel.read_text() + "def broken(:\n"
    kernel.write_text(text)

    assert f"kernels/streams/memory.py:{len(text.splitlines())}: " in refused(finished)
