"""Names of environments: their order, and what a model with constants of another is called."""

import pytest

from roofcal.core.environments import (
    CALIBRATED,
    origin_environment,
    origin_labels,
    short_names,
    transferred_model,
    version_key,
)

OWN = "driver580.159.04-torch2.11.0+cu130-triton3.6.0-a51dd0fa"


def labels_of(*environments: str, own: str = OWN) -> list[str]:
    models = [transferred_model(environment) for environment in environments]
    return list(origin_labels(own, models).values())


def test_environments_are_called_by_first_numbers_or_by_what_tells_them_apart() -> None:
    assert short_names([OWN, OWN]) == {OWN: "driver 580, torch 2.11"}
    assert list(short_names(["torch2.13.0+cpu-36c192aa"]).values()) == ["torch 2.13"]
    driver = OWN.replace("159.04", "200")
    triton = OWN.replace("triton3.6.0-a51dd0fa", "triton3.7.0-12345678")
    assert list(short_names([driver, OWN, triton]).values()) == [
        "driver 580.200, torch 2.11.0+cu130",
        "driver 580.159.04, torch 2.11.0+cu130 (a51dd0fa)",
        "driver 580.159.04, torch 2.11.0+cu130 (12345678)",
    ]


@pytest.mark.parametrize("model", [CALIBRATED, "torchao", "wave", "calibrated_s"])
def test_a_name_holds_the_environment_it_was_made_of_if_any(model: str) -> None:
    assert transferred_model("e1") == "calibrated@e1"
    assert origin_environment(transferred_model(OWN)) == OWN
    assert origin_environment(model) is None
    assert origin_labels(OWN, [model]) == {}


def test_versions_are_compared_as_numbers() -> None:
    names = ["driver580.9-torch2.11", "driver580.10-torch2.9", "driver580.9-torch2.9"]
    ordered = ["driver580.9-torch2.9", "driver580.9-torch2.11", "driver580.10-torch2.9"]
    assert sorted(names, key=version_key) == ordered


DRIVER = "driver570.86-torch2.11.0+cu130-triton3.6.0-22222222"


@pytest.mark.parametrize(
    ("own", "others", "labels"),
    [
        (OWN, [DRIVER], ["driver570.86"]),  # the versions that differ
        (OWN, ["driver570.86-torch2.9.1-triton3.5.0-3"], ["driver570.86 torch2.9.1 triton3.5.0"]),
        (OWN, [OWN.replace("a51dd0fa", "44444444")], ["environment 44444444"]),
        ("torch2.13-driver1-8", ["torch2.13-9"], ["environment 9"]),
        (
            "torch2.11-dddd",
            ["torch2.10-aaaa", "torch2.10-bbbb", "torch2.9-cccc"],
            ["torch2.10 (aaaa)", "torch2.10 (bbbb)", "torch2.9"],
        ),
    ],
)
def test_two_environments_never_have_one_name(
    own: str, others: list[str], labels: list[str]
) -> None:
    assert labels_of(*others, own=own) == labels
