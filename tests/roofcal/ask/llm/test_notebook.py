"""`llm --by notebook` prints the figures that stand in the seed document, to the printed digit."""

import re
from pathlib import Path

import pytest

from roofcal.ask.llm.notebook import as_dict, as_text
from roofcal.cli.main import main
from roofcal.models.wave.notebook.llama import PROMPT
from tests.roofcal.models.wave.notebook.printed import PRINTED_MS

TEXT = as_text()
PRINTED = {  # line of ours -> figure as the notebook prints it, and its unit in this test
    "memory bandwidth": "4341.76",
    "matrix rate": "933.888",
    "KV cache of a sequence": "5.078125",
    "largest batch": "56",
    "token, by bytes of weights": "3.7",
    "token, exchanging": "1.9",
    "token, by operations": "1.9709",
    "prompt, computing": "47.62",
    "prompt, exchanging": "34.2",
}
OPERATORS = (
    *("QKV", "flash attention", "output projection", "normalisation", "feed-forward", "GELU"),
    *("reduce-scatter (", "reduce-scatter with reduction", "layer  "),
)
LAYER_MS = dict(zip(OPERATORS, PRINTED_MS[PROMPT].values(), strict=True))


@pytest.mark.parametrize(("name", "figure"), (PRINTED | LAYER_MS).items())
def test_a_line_has_the_notebooks_figure(name: str, figure: str) -> None:
    (line,) = [line for line in TEXT.splitlines() if line.startswith(name)]
    assert re.search(rf"\s{re.escape(figure)}(\s|$)", line)


def test_the_total_is_the_printed_prefill() -> None:
    assert "prefill 41.746 ms" in TEXT  # printed as 41.745999999999995


def test_figures_are_those_of_the_seed() -> None:
    seed = Path("/work/shared/seeds/mi300_llm_inference_roofline_notebook.txt")
    if not seed.is_file():
        pytest.skip("the seed document is not part of a checkout")
    printed = seed.read_text()
    for figure in ("4.34176", "933.888", "5.078125", "56.0", "3.7", "1.9709", "47.6", "34.2"):
        assert figure in printed
    for name, figure in LAYER_MS.items():
        assert figure in printed, name


def test_it_takes_no_other_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", "--by", "notebook"]) == 0
    assert capsys.readouterr().out == TEXT + "\n"
    assert main(["llm", "--by", "notebook", "--tp", "4"]) == 2
    assert "--tp does not go with --by notebook" in capsys.readouterr().err


def test_for_programs_it_is_si() -> None:
    answer = as_dict()
    assert answer["first_cell"]["memory_bytes_per_s"] == pytest.approx(4341.76e9)
    assert answer["prefill_layer_s"]["total"] == pytest.approx(2.0873e-3)
