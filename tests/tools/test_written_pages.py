"""Pages and files that are written from the code, or from what it prints, say what it says."""

import argparse
import json
import re
from graphlib import CycleError
from pathlib import Path

import nbformat
import pytest

from roofcal.cli.main import COMMANDS
from roofcal.core.recipes import CAST_RECIPES, RECIPES
from roofcal.ops import BY_NAME
from tests.paths import ROOT
from tools import linear_shares, write_examples, write_reference
from tools.run_notebooks import NOTEBOOKS, run_notebook, shown_text
from tools.write_house import PAGE, house_page, imports_by_room
from tools.write_schemas import FOLDER, schemas


def test_the_schemas_are_up_to_date() -> None:
    written = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert written == schemas(), "run: python -m tools.write_schemas"


def test_the_page_shows_the_imports_of_the_code() -> None:
    assert PAGE.read_text() == house_page(imports_by_room()), "run: python -m tools.write_house"


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    imports = {"kernels.gather": {"kernels.gemm", "kernels.common"}}
    imports |= {"kernels.gemm": {"kernels.common"}, "kernels.common": set()}
    page = house_page(imports)
    assert "    kernels.gather --> kernels.gemm\n    kernels.gemm --> kernels.common\n" in page
    assert "kernels.gather --> kernels.common" not in page


def test_rooms_that_import_in_a_circle_are_refused() -> None:
    circle = {"kernels.cast": {"kernels.gemm"}, "kernels.gemm": {"kernels.cast"}}
    with pytest.raises(CycleError):
        house_page(circle)


def test_an_example_gets_the_output_of_its_command() -> None:
    page = "Text.\n\n    $ roofcal table --nothing\n    stale\n\n    staler\n\nMore text.\n"

    fresh = write_examples._EXAMPLE.sub(write_examples.with_output, page)

    assert fresh.startswith("Text.\n\n    $ roofcal table --nothing\n    error: unknown option ")
    assert "stale" not in fresh
    assert fresh.endswith("\n\nMore text.\n")
    of_this_machine = "    $ roofcal doctor\n    torch 2.11\n"
    assert write_examples._EXAMPLE.sub(write_examples.with_output, of_this_machine) == (
        of_this_machine
    )


def test_values_of_python_examples_are_written_anew_and_those_that_hold_stay() -> None:
    page = "Text\n\n    >>> side = 3\n    >>> side * side\n    8\n    >>> side\n    3\n\nMore\n"
    assert write_examples.with_values(page) == page.replace("    8\n", "    9\n")


def test_the_page_of_the_configuration_is_up_to_date() -> None:
    page = write_reference.CONFIG_PAGE.read_text(encoding="utf-8")
    assert page == write_reference.config_page(), "run: python -m tools.write_reference"


def test_the_pages_of_the_site_name_every_command_op_and_recipe() -> None:
    commands = write_reference.cli_page()
    assert [name for name in COMMANDS if f"\n## {name}\n" not in commands] == []
    names = write_reference.recipes_page()
    for name in (*BY_NAME, *RECIPES, *CAST_RECIPES):
        assert f"| `{name}` |" in names


def test_an_argument_is_shown_with_its_value_its_choices_and_whether_it_is_needed() -> None:
    parser = argparse.ArgumentParser()
    size = parser.add_argument("--size", choices=["s", "a_b"], required=True, help="how <large>")
    quick = parser.add_argument("--quick", action="store_true")

    assert write_reference._spelling(size) == "--size SIZE"
    assert write_reference._meaning(size) == r"how \<large\>. One of `s`, `a_b`. Required."
    assert write_reference._spelling(quick) == "--quick"


def test_a_notebook_becomes_a_page_with_its_code_and_its_outputs(tmp_path: Path) -> None:
    frame = {"data": {"text/html": ["<table>"], "text/plain": ["a b"]}}
    streams = [{"text": ["one\n"]}, {"text": ["two\n"]}]
    outputs = [*streams, frame, {"data": {"image/png": "aGk="}}]
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": outputs},
    ]
    notebook = tmp_path / "n.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))

    page = write_reference.notebook_page(notebook)

    assert page.startswith("# Title\n\n```python\n1 + 1\n```\n\n```text\none\ntwo\n```\n\n")
    assert "```{raw} html\n<table>\n```" in page
    assert page.endswith('src="data:image/png;base64,aGk=">\n')
    assert "a b" not in page


def test_there_are_two_notebooks() -> None:
    assert len(NOTEBOOKS) == 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path: Path) -> None:
    """Each starts a Python of its own: 3 s of CPU."""
    shown = shown_text(nbformat.read(path, as_version=4))
    assert any(shown)
    assert shown_text(run_notebook(path)) == shown, "run python -m tools.run_notebooks"


_LINE = re.compile(r"(\d+) linears, ([\d.]+)% off, bias \+?(-?[\d.]+)%, (\d+)% inside")


def test_the_page_has_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    linear_shares.main()
    less, chosen, more, alone, torchao, axiswise, *_ = capsys.readouterr().out.splitlines()
    page = " ".join((ROOT / "docs" / "models.md").read_text().split())
    lines = (less, chosen, more, alone)
    found = [match.groups() for line in lines if (match := _LINE.search(line))]
    of_less, (count, off, bias, inside), of_more, (_, off_alone, bias_alone, _) = found
    assert f"on the {count} published linears" in page
    assert f"they are {off} % off, bias {bias} %, and {inside} % of them lie inside" in page
    assert f"parts as they are alone make {off_alone} % with a bias of {bias_alone} %" in page
    (_, off_less, bias_less, _), (_, off_more, bias_more, _) = of_less, of_more
    assert float(off) < min(float(off_less), float(off_more))
    worse = f"({off_less} % off, bias {bias_less} %, and {off_more} % off, bias {bias_more} %)"
    assert f"0.97 and 0.99 are worse {worse}" in page
    assert "36 linears" in torchao
    assert "of 36 between a norm and a sigmoid" in page
    least, most = re.findall(r"\+(\d+)%", axiswise)
    assert axiswise.strip().startswith("fp8_axiswise,")
    assert f"the large axiswise ones take {least} to {most} % longer than the sum" in page
