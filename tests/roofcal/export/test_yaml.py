"""The YAML is what any YAML reader takes."""

import yaml

from roofcal.export.document import document
from roofcal.export.yaml import write
from tests.roofcal.export.subjects import h200


def test_it_reads_back_to_the_same_numbers() -> None:
    assert yaml.safe_load(write(h200())) == document(h200(), "yaml")


def test_comments_say_where_it_comes_from() -> None:
    lines = write(h200()).splitlines()
    assert lines[:3] == [f"# {line}" for line in h200().provenance("yaml")]
