"""`advise` on the published H200."""

import json
from pathlib import Path

import pytest

from roofcal.cli.main import main
from tests.paths import ROOT
from tests.roofcal.cli.heavy import heavy_packages_of

H200 = ["advise", "--device", "nvidia-h200"]
SIZES = ["--m", "4096", "--n", "28672", "--k", "8192"]


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.core.paths.RESULTS", Path("no-results-of-this-machine"))


def test_it_ranks_recipes_and_names_model_and_providers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*H200, *SIZES]) == 0
    said = capsys.readouterr().out
    assert said.startswith("recipe ")
    assert "cublaslt" in said
    assert "model calibrated, nvidia-h200, driver" in said


def test_for_programs_it_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*H200, *SIZES, "--pass", "forward_backward", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["pass"], answer["weights"]) == ("forward_backward", "cast")
    assert {"products_by", "casts_by", "output_db"} <= answer["options"][0].keys()


def test_many_shapes_are_a_csv(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("m,n,k\n16,4096,4096\n")
    out = tmp_path / "o.csv"
    assert main([*H200, "--shapes", str(tmp_path / "s.csv"), "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 2


def test_a_datasheet_advises_on_a_card_that_nobody_calibrated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["advise", "--device", "amd-mi355x", "--model", "wave", *SIZES]) == 0
    assert "model wave, amd-mi355x, its wave description" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--m", "1"], "advise needs --n --k"),
        ([*SIZES, "--model", "calibratd"], "unknown model 'calibratd'"),
        ([*SIZES, "--device", "nvidia-h20"], "did you mean 'nvidia-h200'?"),
        (["--shapes", "nowhere.csv"], "nowhere.csv: cannot be read"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*H200, *arguments]) == 2
    assert says in capsys.readouterr().err


def test_an_answer_imports_no_heavy_package() -> None:
    assert heavy_packages_of([*H200, *SIZES]) == set()
