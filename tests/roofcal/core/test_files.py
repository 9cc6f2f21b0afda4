"""Files are written whole or not at all."""

from pathlib import Path

import pytest

from roofcal.core.files import write_bytes


def test_folders_are_made_and_content_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    write_bytes(path, b"one")
    write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    write_bytes(path, b"before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("roofcal.core.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(path, b"half")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
