"""What `make ... VENV=none` says about an environment that is not ours."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError

import pytest

from tools import check_environment


def versions(**installed: str) -> Callable[[str], str]:
    """Stands in for importlib.metadata.version."""

    def version(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    return version


def test_the_environment_of_the_tests_is_complete() -> None:
    wanted = check_environment.requirements(dev=True)
    found = {name: check_environment.installed_version(name) for name in wanted}
    assert check_environment.problems(wanted, found) == []
    assert "pytest" in set(wanted) - set(check_environment.requirements(dev=False))


def test_missing_packages_are_named_with_the_command_that_brings_them() -> None:
    wanted = {"numpy": "numpy>=2.1,<2.4", "tqdm": "tqdm>=4.66"}
    error, way_out = check_environment.problems(wanted, {"numpy": None, "tqdm": "4.70"})
    assert "lacks packages" in error
    assert way_out.endswith("-m pip install 'numpy>=2.1,<2.4'")


def test_the_kernels_of_pypi_are_an_error_and_triton_for_rocm_is_triton(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = versions(kernels="0.9", **{"triton-rocm": "3.6.0"})
    monkeypatch.setattr(check_environment, "version", found)
    assert check_environment.installed_version("triton") == "3.6.0"
    error, way_out = check_environment.problems({}, {})
    assert "shadows our folder kernels/" in error
    assert way_out.endswith("-m pip uninstall kernels")


def test_a_version_is_compared_without_its_local_label() -> None:
    assert check_environment.is_satisfied("triton==3.6.0", "3.6.0+git1234")
    assert not check_environment.is_satisfied("torch>=2.11", "2.10.0+cu128")


def test_another_version_is_a_note_and_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_environment, "requirements", lambda **_: {"numpy": "numpy<2.4"})
    monkeypatch.setattr(check_environment, "version", versions(numpy="2.5.2"))
    assert check_environment.main() == 0
    assert "asks for numpy<2.4; 2.5.2 is installed" in capsys.readouterr().out
