"""The example prints the figures of the notebook on MI300X inference, to the printed digit."""

import re
from pathlib import Path

import pytest

from examples import mi300_notebook as notebook
from examples.mi300_notebook import NOTEBOOK
from roofcal.cli.main import main
from roofcal.core import paths
from tests.examples.mi300_deviations import Deviation, deviations
from tests.paths import ROOT

PRINTED_MS = {  # rows of the layer -> operator -> milliseconds
    notebook.PROMPT: {
        "qkv": "0.4905",
        "attention": "0.1276",
        "out": "0.1907",
        "normalisation": "0.0315",
        "mlp": "0.4695",
        "gelu": "0.0193",
        "reduce_scatter": "0.2876",
        "reduce_scatter_reduction": "0.7142",
        "total": "2.0873",
    },
    notebook.DECODED: {
        "qkv": "0.0132",
        "out": "0.0135",
        "mlp": "0.0198",
        "reduce_scatter_reduction": "0.0174",
        "total": "0.0771",
    },
}
TEXT = notebook.as_text()
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
LAYER_MS = dict(zip(OPERATORS, PRINTED_MS[notebook.PROMPT].values(), strict=True))
PAGE = (ROOT / "docs/models.md").read_text("utf-8")
DEVIATIONS = list(deviations(NOTEBOOK))


@pytest.mark.parametrize(("name", "figure"), (PRINTED | LAYER_MS).items())
def test_a_line_has_the_notebooks_figure(name: str, figure: str) -> None:
    (line,) = [line for line in TEXT.splitlines() if line.startswith(name)]
    assert re.search(rf"\s{re.escape(figure)}(\s|$)", line)


def test_it_takes_no_other_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", "--by", "notebook"]) == 0
    assert capsys.readouterr().out == TEXT + "\n"
    assert main(["llm", "--by", "notebook", "--tp", "4"]) == 2
    assert "--tp does not go with --by notebook" in capsys.readouterr().err


def test_without_the_example_the_command_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    assert main(["llm", "--by", "notebook"]) == 2
    assert "`python examples/mi300_notebook.py`" in capsys.readouterr().err


def test_for_programs_it_is_si() -> None:
    answer = notebook.as_dict()
    assert answer["first_cell"]["memory_bytes_per_s"] == pytest.approx(4341.76e9)
    assert answer["prefill_layer_s"]["total"] == pytest.approx(2.0873e-3)


@pytest.mark.parametrize("rows", PRINTED_MS)
def test_a_layer_prints_what_the_notebook_prints(rows: int) -> None:
    layer = notebook.layer_seconds(NOTEBOOK, rows)
    for name, printed in PRINTED_MS[rows].items():
        assert f"{layer[name] * 1e3:.4f}" == printed, name


def test_the_totals_are_the_notebooks() -> None:
    totals = {
        name: f"{seconds * 1e3:.3f}" for name, seconds in notebook.model_seconds(NOTEBOOK).items()
    }
    assert totals == {"prefill": "41.746", "decode": "1.542", "total": "43.288"}


def test_corrected_the_cache_is_in_gigabytes_and_bounds_the_batch() -> None:
    estimate = notebook.corrected(NOTEBOOK)
    cache = 2 * 2 * 8192 * 80 * 2080
    assert estimate.kv_cache == pytest.approx(cache / 1e9)
    assert estimate.batch == (192 - 130) * 10**9 // cache == 11


def test_corrected_the_operations_of_a_token_are_those_of_its_weights() -> None:
    estimate = notebook.corrected(NOTEBOOK)
    assert estimate.token_flops_s == pytest.approx(estimate.token_size_s, rel=0.01)
    weights = 80 * (4 * 8192**2 + 3 * 8192 * 22016)
    assert estimate.token_flops_s == pytest.approx(2 * weights / (8 * 4341.76e9))
    prompt = 2 * 2048 * weights + 80 * 2 * 2048**2 * 8192
    assert estimate.prompt_s == pytest.approx(prompt / (8 * 933.888e12 * 0.85))
    assert estimate.prompt_link_s < notebook.printed(NOTEBOOK).prompt_link_s


def test_few_rows_are_bound_by_memory_in_units_of_its_own() -> None:
    right = 8192 * 8192 * 2 / (4259.84e9 * 0.85)
    wrong = notebook.gemm_s(NOTEBOOK, 1, 8192, 8192)
    assert wrong == notebook.skinny_s(NOTEBOOK, 1, 8192, 8192)
    assert wrong / right == pytest.approx(1e9 / (2**30 * 1.5e15), rel=1e-12)


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda d: d.name)
def test_the_page_lists_each_with_its_size_and_a_reason(deviation: Deviation) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {deviation.name} |")]
    assert row.startswith(deviation.table_row)
    assert len(row.removeprefix(deviation.table_row)) > 10
    assert deviation.notebook != deviation.corrected


def test_the_page_lists_no_other() -> None:
    section = PAGE.split("### Where it differs from the notebook")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (?!figure|---).*$", section, flags=re.MULTILINE)
    assert len(rows) == len(DEVIATIONS)
