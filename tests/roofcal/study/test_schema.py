"""The classes of the YAML files refuse what no study can mean."""

import pytest
from pydantic import ValidationError

from roofcal.core.language_models import Experts, LanguageModel
from roofcal.core.timing_protocol import Timing
from roofcal.study.schema import LogUniform, StudyFile, Sweep, SweepFile


def test_the_defaults_are_a_study() -> None:
    study = StudyFile()
    assert (study.study, study.devices, study.published) == ("quick", "auto", True)
    assert set(study.timing) == {"cuda", "cpu"}


@pytest.mark.parametrize("given", [{}, {"cubes": [1], "shapes": [[1, 1, 1]]}])
def test_a_sweep_has_exactly_one_generator(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="needs exactly one of"):
        Sweep.model_validate(given)


@pytest.mark.parametrize("empty", [{"cubes": []}, {"shapes": []}, {"grid": {}}])
def test_an_empty_sweep_is_refused(empty: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="measures nothing"):
        Sweep.model_validate(empty)


@pytest.mark.parametrize(
    ("name", "value"),
    [("slice_s", 0), ("budget_s", -1), ("target_interval", 1), ("min_samples", 1.5)],
)
def test_timing_keeps_its_bounds(name: str, value: float) -> None:
    with pytest.raises(ValidationError):
        Timing.model_validate({name: value})


def test_shares_are_between_nothing_and_all() -> None:
    with pytest.raises(ValidationError):
        LogUniform(count=1, seed=0, low=1, high=2, skinny_fraction=1.1)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ValidationError, match="'cuda' or 'cpu'"):
        SweepFile.model_validate(
            {"op": "x", "contenders": {"tpu": {}}, "sweeps": {}, "studies": {}}
        )


def test_a_device_is_auto_or_a_list() -> None:
    assert StudyFile(devices=["d/e"]).devices == ["d/e"]
    with pytest.raises(ValidationError, match='give "auto" or a list'):
        StudyFile.model_validate({"devices": "d/e"})


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
    assert model.architecture.matrix_names == ("qkv", "attention_out", "gate_up", "down")


def test_a_model_needs_no_architecture_for_a_study() -> None:
    content = language_model() | {"architecture": None}
    assert LanguageModel.model_validate(content).architecture is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heads": 4}, "matrices.qkv.n is 96, and its heads make it 64"),
        ({"heads": 9}, "9 heads cannot share 2 key/value heads"),
        ({"experts": {"count": 4, "per_token": 2}}, "missing: expert_down, expert_gate_up"),
        ({"experts": {"count": 4, "per_token": 2, "dense_layers": 2}}, "leaves no layer of 2"),
        ({"latent": {"latent": 8, "rope": 4, "value": 8}}, "missing: kv_down, kv_up, q_down, q_up"),
        ({"layer": 3}, "Extra inputs are not permitted"),
    ],
)
def test_an_architecture_that_contradicts_itself_is_refused(
    changes: dict[str, object], says: str
) -> None:
    with pytest.raises(ValidationError, match=says):
        LanguageModel.model_validate(language_model(**changes))


def test_no_token_visits_more_experts_than_there_are() -> None:
    with pytest.raises(ValidationError, match="per_token is 9, and there are 8 experts"):
        Experts(count=8, per_token=9)
