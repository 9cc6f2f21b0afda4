"""Pages that are written from the code say what the code says."""

import argparse
import json
from pathlib import Path

from roofcal.cli.main import COMMANDS
from roofcal.core.recipes import CAST_RECIPES, RECIPES
from roofcal.ops import BY_NAME
from tools import write_reference


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
