"""What is wrong with a YAML file is one line with file, key, and the nearest name."""

from pathlib import Path

import pytest

from roofcal.core.language_models import LanguageModel
from roofcal.core.timing_protocol import Timing
from roofcal.core.yaml_files import read_yaml, validated


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not YAML"),
        ("- a\n", "must be a mapping of keys to values, is a list"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_mapping_is_named(tmp_path: Path, text: str | None, says: str) -> None:
    path, errors = tmp_path / "x.yaml", list[str]()
    if text is not None:
        path.write_text(text)
    assert read_yaml(path, errors) == {}
    (error,) = errors
    path.write_text("")
    assert read_yaml(path, errors) == {}, "an empty file is an empty mapping"
    assert errors == [error]
    assert error.startswith(f"{path}: ")
    assert says in error


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"head_dim": 128}, "head_dim: unknown key here; it belongs below architecture"),
        ({"architecture": {"model": "x"}}, "architecture.model: unknown key here; it belongs at"),
        (
            {"architecture": {"layres": 2}},
            "architecture.layres: unknown key; did you mean 'layers'",
        ),
        ({"shard": "n"}, "shard: unknown key here; it belongs below matrices.<name>"),
        ({"matrices": {"qkv": {"rows": 1}}}, "matrices.qkv.rows: unknown key; allowed: k, n"),
    ],
)
def test_an_unknown_key_is_never_answered_with_itself(
    content: dict[str, object], says: str
) -> None:
    """It once was: head_dim: unknown key; did you mean 'head_dim'?"""
    errors: list[str] = []
    validated(LanguageModel, content, Path("x.yaml"), errors)
    assert any(error.startswith(f"x.yaml: {says}") for error in errors), errors


def test_every_error_of_the_content_is_a_line() -> None:
    errors: list[str] = []
    content = {"budget": 1, "min_rounds": 0}
    assert validated(Timing, content, Path("x.yaml"), errors) is None
    assert sorted(errors)[0].startswith("x.yaml: budget: unknown key; did you mean 'budget_s'?")
    assert sorted(errors)[1].startswith("x.yaml: min_rounds: Input should be greater than 0")
    assert validated(Timing, {}, Path("x.yaml"), errors) == Timing()
