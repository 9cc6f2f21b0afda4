"""The JSON Schemas under config/schema are those of the code."""

from tools.write_schemas import FOLDER, schemas


def test_the_schemas_are_up_to_date() -> None:
    written = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert written == schemas(), "run: python -m tools.write_schemas"
