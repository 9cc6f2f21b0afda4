"""tools/gpu_session.sh runs its parts in order, stops what takes too long, and ends in a table."""

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.paths import ROOT

# Stands in for Python and for make: notes what it was called for, and does as MISHAP says.
STAND_IN = """#!/usr/bin/env bash
echo "$(basename "$0") $* caches=${TRITON_CACHE_DIR:-} in=$PWD" >> "$TRACE"
case "$*" in
    *"$SLOW"*) [ -z "$SLOW" ] || sleep 100 ;;
esac
case "$*" in
    *"-m pytest"*) echo "12 passed, 3 skipped in 4 s" ;;
    *spot_checks.py*unlisted*) printf 'op  mape\n%s\n%s\n' "seed 7 by run:" "Predictions of gemm" ;;
    *what_waited.py*) printf 'device/environment\\n  gemm  60\\n  all  70 s busy\\n' ;;
    *spot_checks.py*) printf 'first\\n%s\\n%s\\n' "second session: 80 of 96" "alone, settled: 24" ;;
    *"roofcal health"*) echo "this card is as fast as its kind"; exit 1 ;;
    study*)
        mkdir -p results/d/e/journal
        echo '{}' > results/d/e/journal/gemm.jsonl
        ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script, and programs that stand in for Python and make."""
    folder = tmp_path / "checkout"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "gpu_session.sh").write_bytes((ROOT / "tools/gpu_session.sh").read_bytes())
    (tmp_path / "bin").mkdir()
    for name in ("python3", "make"):
        program = tmp_path / "bin" / name
        program.write_text(STAND_IN)
        program.chmod(0o755)
    return folder


def session(
    checkout: Path, *parts: str, slow: str = "", part_s: int = 60, away_s: str = ""
) -> tuple[int, str]:
    """The exit code of the script and what it printed."""
    around = checkout.parent
    environment = {name: value for name, value in os.environ.items() if "CACHE_DIR" not in name} | {
        "PATH": f"{around / 'bin'}:{os.environ['PATH']}",
        "OUT": str(around / "out"),
        "WORK": str(around / "work"),
        "TRACE": str(around / "trace"),
        "SLOW": slow,
        "PART_S": str(part_s),
        "AWAY_S": away_s,
        "SEED": "7",
        "VENV": "none",
        "PYTHON": "python3",
    }
    done = subprocess.run(
        ["bash", "tools/gpu_session.sh", *parts],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def calls(checkout: Path) -> list[str]:
    return (checkout.parent / "trace").read_text().splitlines()


def test_all_parts_run_in_order_and_the_table_comes_last(checkout: Path) -> None:
    code, said = session(checkout)
    assert code == 1, "health found something"
    table = said[said.rindex("== standard") :].splitlines()[1:]
    names = [line.split()[0] for line in table if not line.startswith(" ")]
    parts = "kernels minute quick health energy repeat unlisted standard"
    assert names == parts.split()
    assert table[1].strip() == "12 passed, 3 skipped in 4 s"
    assert "            all  70 s busy" in table
    assert "          second session: 80 of 96" in table
    assert "          Predictions of gemm" in table
    assert "          op  mape" not in table
    assert [call for call in calls(checkout) if "work/unlisted --seed 7" in call]
    assert (checkout.parent / "out" / "summary.txt").read_text().splitlines() == table


@pytest.mark.parametrize("size", ["minute", "quick"])
def test_small_studies_have_a_checkout_and_empty_caches_and_records_are_packed(
    checkout: Path, size: str
) -> None:
    (checkout / "results").mkdir()
    session(checkout, size, "standard")
    (part,) = (checkout.parent / "out").glob("records.tar.xz.*")
    with tarfile.open(part) as archive:
        names = archive.getnames()
    assert [name for name in names if name.startswith("results/")]
    assert [name for name in names if f"work/{size}/results/" in name]
    small, once, again = [call for call in calls(checkout) if call.startswith("make")]
    assert f"STUDY={size}" in small
    assert small.endswith(f"in={checkout.parent}/work/{size}")
    assert f"caches={checkout.parent}/work/{size}-caches/triton" in small
    assert once.startswith("make study STUDY=standard STUDY_CONFIG='timing_of_study=")
    assert once.endswith(f"SNAKEMAKE_ARGS=--until measure caches= in={checkout}")
    assert again == f"make study STUDY=standard caches= in={checkout}"


def test_a_part_that_takes_too_long_is_stopped_and_the_next_one_runs(checkout: Path) -> None:
    code, said = session(checkout, "repeat", "kernels", slow="repeat", part_s=1)
    assert code == 1
    assert "stopped after 1 s" in said
    assert "12 passed" in said


def test_parts_run_on_when_a_call_returns_and_the_next_call_has_their_table(checkout: Path) -> None:
    code, said = session(checkout, "repeat", "kernels", slow="repeat", part_s=3, away_s="1")
    assert (code, said.splitlines()[-1]) == (0, "the parts still run: call again")
    code, said = session(checkout, "repeat", "kernels", slow="repeat", part_s=3, away_s="30")
    assert code == 1
    assert "stopped after 3 s" in said
    assert said.splitlines()[-1].strip() == "12 passed, 3 skipped in 4 s"
    assert len([call for call in calls(checkout) if "spot_checks.py repeat" in call]) == 1
    assert (checkout.parent / "out" / "kernels.log").exists()


def test_an_unknown_part_is_refused_before_anything_runs(checkout: Path) -> None:
    code, said = session(checkout, "kernels", "fast")
    assert code == 2
    assert "unknown part 'fast'; parts: kernels minute quick" in said
    assert not (checkout.parent / "trace").exists()
