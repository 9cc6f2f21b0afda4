"""What a model with another environment's constants is called, in records and for people."""

import pytest

from roofcal.core.transfers import CALIBRATED, origin_of, origins, transferred

OWN = "driver580.159.04-torch2.11.0+cu130-triton3.6.0-a51dd0fa"


def named(*environments: str, own: str = OWN) -> list[str]:
    return list(origins(own, [transferred(environment) for environment in environments]).values())


def test_a_name_holds_the_environment_it_was_made_of() -> None:
    assert transferred("e1") == "calibrated@e1"
    assert origin_of(transferred(OWN)) == OWN


@pytest.mark.parametrize("model", [CALIBRATED, "torchao", "wave", "calibrated_s"])
def test_other_models_come_from_no_other_environment(model: str) -> None:
    assert origin_of(model) is None
    assert origins(OWN, [model]) == {}


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ("driver580.159.04-torch2.10.0+cu130-triton3.6.0-11111111", "torch2.10.0+cu130"),
        ("driver570.86-torch2.11.0+cu130-triton3.6.0-22222222", "driver570.86"),
        ("driver570.86-torch2.9.1-triton3.5.0-3", "driver570.86 torch2.9.1 triton3.5.0"),
    ],
)
def test_an_environment_is_called_by_the_versions_that_differ(other: str, name: str) -> None:
    assert named(other) == [name]


def test_without_another_version_the_hash_tells_environments_apart() -> None:
    assert named("driver580.159.04-torch2.11.0+cu130-triton3.6.0-44444444") == [
        "environment 44444444"
    ]
    assert named("torch2.13-9", own="torch2.13-driver1-8") == ["environment 9"]


def test_two_environments_never_have_one_name() -> None:
    found = named("torch2.10-aaaa", "torch2.10-bbbb", "torch2.9-cccc", own="torch2.11-dddd")
    assert found == ["torch2.10 (aaaa)", "torch2.10 (bbbb)", "torch2.9"]
