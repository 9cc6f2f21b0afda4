"""A run is named by its folder, its device and environment, or the start of a name."""

from pathlib import Path

import pytest

from roofcal.compare.errors import CompareError
from roofcal.compare.names import find


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    for name in ("a/gpu/driver1-x", "a/gpu/driver2-y", "b/gpu/driver2-y", "b/cpu/torch2"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "environment.jsonl").touch()
    return [tmp_path / "a", tmp_path / "b"]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("gpu/driver1-x", "a/gpu/driver1-x"),
        ("driver1", "a/gpu/driver1-x"),
        ("driver2-y", "b/gpu/driver2-y"),
        ("cpu", "b/cpu/torch2"),
        ("cpu/", "b/cpu/torch2"),
    ],
)
def test_a_name_or_its_start_finds_the_run_of_the_last_root(
    roots: list[Path], tmp_path: Path, name: str, folder: str
) -> None:
    assert find(name, roots).folder == tmp_path / folder


def test_a_folder_may_have_its_derived_files_elsewhere(roots: list[Path], tmp_path: Path) -> None:
    named = find(f"{tmp_path}/a/gpu/driver1-x={tmp_path}/replay", roots)
    assert (named.folder, named.derived) == (tmp_path / "a/gpu/driver1-x", tmp_path / "replay")
    assert find("driver1", roots).derived == tmp_path / "a/gpu/driver1-x"


def test_what_may_be_several_is_refused_with_all_of_them(roots: list[Path]) -> None:
    with pytest.raises(CompareError, match="any of: gpu/driver1-x, gpu/driver2-y"):
        find("gpu", roots)


@pytest.mark.parametrize("name", ["gpu/driver1-z", "", "nowhere"])
def test_what_is_none_is_refused_with_what_there_is(roots: list[Path], name: str) -> None:
    with pytest.raises(CompareError, match="There are: cpu/torch2, gpu/driver1-x"):
        find(name, roots)


def test_a_typo_is_answered_with_the_nearest_name(roots: list[Path]) -> None:
    with pytest.raises(CompareError, match="did you mean 'gpu/driver1-x'"):
        find("gpu/drivr1-x", roots)
