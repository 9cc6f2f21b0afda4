"""Environments in the order of their versions."""

from roofcal.core.environments import version_key


def test_versions_are_compared_as_numbers() -> None:
    names = ["driver580.9-torch2.11", "driver580.10-torch2.9", "driver580.9-torch2.9"]
    ordered = ["driver580.9-torch2.9", "driver580.9-torch2.11", "driver580.10-torch2.9"]
    assert sorted(names, key=version_key) == ordered
