"""Files are there whole or not at all, replace nothing else, and are read within limits."""

import gzip
import os
import re
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from roofcal.core import files
from roofcal.core.files import (
    InputError,
    folder_problems,
    iter_lines,
    parse_json,
    parse_yaml,
    read_json,
    read_limited,
    read_text,
    write_bytes,
)
from roofcal.core.units import MIB


def test_a_file_is_written_whole_with_its_folders_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a" / "b" / "c.txt"
    write_bytes(path, b"one")
    write_bytes(path, b"two")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_bytes(path, b"three")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["c.txt"]


def full_disk(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_pipes_and_devices_are_written_to_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_bytes(path, b"text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert path.is_fifo()
    if Path("/dev/full").exists():
        with pytest.raises(OSError, match="No space"):
            write_bytes(Path("/dev/full"), b"text")
        assert Path("/dev/full").is_char_device()


def test_a_link_and_a_folder_are_refused_and_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    for name in ("link", "dangling", "folder"):
        with pytest.raises(OSError, match=r"is a (symbolic link|folder); give the") as caught:
            write_bytes(tmp_path / name, b"theirs")
        assert caught.value.filename == str(tmp_path / name)
    assert (tmp_path / "own").read_text() == "mine"
    assert not (tmp_path / "nothing").exists()
    assert list((tmp_path / "folder").iterdir()) == []


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_limited(tmp_path / "a", 5) == b"12345"
    with pytest.raises(InputError, match=r"/a: has more than 4 B"):
        read_limited(tmp_path / "a", 4)
    with pytest.raises(InputError, match=r"/dev/zero: has more than 1 MiB"):
        read_limited(Path("/dev/zero"), MIB)
    with pytest.raises(InputError, match=r"/b: cannot be read \(No such file"):
        read_limited(tmp_path / "b")


def test_text_has_no_byte_order_mark_and_a_bad_byte_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    assert read_text(tmp_path / "a") == "one\r\ntwo"
    (tmp_path / "a").write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(InputError, match=r"/a:2: is not UTF-8 \(byte 0xff\)"):
        read_text(tmp_path / "a")


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", "[" * 200_000, "1" * 5000, "\x00"])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


def test_a_json_file_is_read_or_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "a.json") == {"a": 1}
    (tmp_path / "a.json").write_text("[" * 200_000)
    with pytest.raises(InputError, match=r"a\.json: is not JSON \(it is nested too deeply\)"):
        read_json(tmp_path / "a.json")


def lines_of(path: Path) -> list[bytes | str]:
    """The lines of a file, errors as text."""
    return [str(line) if isinstance(line, InputError) else line for _, line in iter_lines(path)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_line_that_is_too_long_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(files, "MOST_LINE_BYTES", 1000)
    content = b"\xef\xbb\xbfone\n" + b"x" * 3_000_000 + b"\ntwo\r\n\xff\xfe\nlast"
    packed = gzip.compress(content) if name.endswith(".gz") else content
    (tmp_path / name).write_bytes(packed)
    one, error, *rest = lines_of(tmp_path / name)
    assert (one, rest) == (b"one", [b"two", b"\xff\xfe", b"last"])
    assert error == f"{tmp_path / name}:2: has more than 1000 B in a line"


@pytest.mark.parametrize(
    ("content", "limit"),
    [
        (b" " * 6 * MIB, r"[\d.]+ KiB, the most for a file of its size"),
        ((b"x" * 15 + b"\n") * 2**13, r"[\d.]+ KiB, the most for a file of its size"),
        (b"1," * 2**14 + b"\n", r"\d+ values"),
        (b"\n" * 2**15, r"\d+ values"),
    ],
    ids=["one line", "many lines", "many values", "empty lines"],
)
def test_a_file_that_unpacks_to_too_much_is_refused_with_the_limit(
    tmp_path: Path, content: bytes, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small limits: the real ones take seconds."""
    monkeypatch.setattr(files, "LEAST_EXPANDED_BYTES", MIB >> 4)
    monkeypatch.setattr(files, "LEAST_VALUES", 9000)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(content))
    *_, last = lines_of(path)
    assert re.match(rf"{path}: unpacks to more than {limit}", str(last))


def test_a_packed_file_that_is_cut_or_wrong_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    packed = gzip.compress(os.urandom(1000).hex().encode() + b"\n" + b"b\n")
    for damaged in (packed[:-12], packed[:400] + b"\x00" * 50 + packed[450:], b"no gzip", b""):
        path.write_bytes(damaged)
        last = [str(line) for line in lines_of(path)][-1:]
        assert not last or "cut off or damaged here" in last[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: " + "[" * 2000, "more than 50 levels"),
        ("a: 1\nb: 2\na: 3\n", "the key 'a' stands 2 times"),
        ("a: &a [1]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", None),
        ("a: &a [*a]\n", "an alias stands within what it stands for"),
        ("a: 2024-13-45\n", "month"),
        ("a: {b: 1, <<: {b: 2, c: 3}}\n", None),
    ],
)
def test_yaml_is_limited(text: str, says: str | None) -> None:
    if says is None:
        assert parse_yaml(text)
    else:
        with pytest.raises(yaml.YAMLError, match=says):
            parse_yaml(text)


def test_aliases_that_stand_for_millions_of_entries_are_refused() -> None:
    """320 bytes that would be 10^9 entries."""
    names = "abcdefghij"
    lines = [f"a: &a [{', '.join('x' * 10)}]"]
    for before, name in pairwise(names):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    with pytest.raises(yaml.YAMLError, match="more than 100000 entries"):
        parse_yaml("\n".join(lines))


def test_links_special_files_and_too_many_files_in_a_folder_are_named_and_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("s3cret")
    folder = tmp_path / "run"
    (folder / "tables").mkdir(parents=True)
    (folder / "tables/a.csv").symlink_to(tmp_path / "secret")
    (folder / "plan").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    problems = sorted(folder_problems(folder))
    names = [f"{folder}/{name}" for name in ("pipe", "plan", "tables/a.csv")]
    assert [problem.split(":")[0] for problem in problems] == names
    assert "s3cret" not in "".join(problems)
    assert "is no regular file" in problems[0]
    (tmp_path / "link").symlink_to(folder)
    assert "is a symbolic link" in next(folder_problems(tmp_path / "link"))
    monkeypatch.setattr(files, "MOST_FILES", 3)
    assert "holds more than 3 files" in list(folder_problems(folder))[-1]
