"""The classes of the YAML files refuse what no study can mean."""

import pytest
from pydantic import ValidationError

from roofcal.schema import LogUniform, StudyFile, Sweep, SweepFile, Timing


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
