"""The classes of the YAML files refuse what no study can mean."""

import pytest
from pydantic import ValidationError

from roofcal.core.language_models import LanguageModel
from roofcal.study.schema import StudyFile


def test_the_defaults_are_a_study() -> None:
    study = StudyFile()
    assert (study.study, study.devices, study.published) == ("quick", "auto", True)
    assert set(study.timing) == {"cuda", "cpu"}
    assert StudyFile(devices=["d/e"]).devices == ["d/e"]


def language_model(**changes: object) -> dict[str, object]:
    """A small valid model with top-level keys of its architecture or matrices replaced."""
    matrices: dict[str, object] = {
        "qkv": {"n": 96, "k": 32, "shard": "n"},
        "attention_out": {"n": 32, "k": 64, "shard": "k"},
        "gate_up": {"n": 256, "k": 32, "shard": "n"},
        "down": {"n": 32, "k": 128, "shard": "k"},
    }
    architecture: dict[str, object] = {
        "layers": 2, "vocabulary": 100, "heads": 8, "kv_heads": 2, "head_dim": 8,
    }  # fmt: skip
    for key, value in changes.items():
        (matrices if key in matrices else architecture)[key] = value
    return {"model": "x", "source": "y", "matrices": matrices, "architecture": architecture}


def test_a_model_whose_matrices_fit_its_heads_is_valid() -> None:
    model = LanguageModel.model_validate(language_model())
    assert model.architecture is not None
    without = LanguageModel.model_validate(language_model() | {"architecture": None})
    assert without.architecture is None
    assert model.architecture.matrix_names == ("qkv", "attention_out", "gate_up", "down")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heads": 4}, "matrices.qkv.n is 96, and its heads make it 64"),
        ({"heads": 9}, "9 heads cannot share 2 key/value heads"),
        ({"experts": {"count": 4, "per_token": 2}}, "missing: expert_down, expert_gate_up"),
        ({"experts": {"count": 4, "per_token": 2, "dense_layers": 2}}, "leaves no layer of 2"),
        ({"latent": {"latent": 8, "rope": 4, "value": 8}}, "missing: kv_down, kv_up, q_down, q_up"),
        ({"layer": 3}, "Extra inputs are not permitted"),
        ({"experts": {"count": 8, "per_token": 9}}, "per_token is 9, and there are 8 experts"),
    ],
)
def test_an_architecture_that_contradicts_itself_is_refused(
    changes: dict[str, object], says: str
) -> None:
    with pytest.raises(ValidationError, match=says):
        LanguageModel.model_validate(language_model(**changes))
