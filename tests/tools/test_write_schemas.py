"""The JSON Schemas under config/schema are those of the code."""

import json

import pytest

from tools.write_schemas import FOLDER, schemas


@pytest.mark.parametrize("name", sorted(schemas()))
def test_a_schema_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == schemas()[name], "run: python tools/write_schemas.py"


def test_no_schema_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(schemas())


def test_a_schema_names_the_keys_of_its_file() -> None:
    schema = json.loads(schemas()["sweep.schema.json"])
    keys = {"op", "recipes", "contenders", "sweeps", "studies", "sentinel"}
    assert keys == set(schema["properties"])
