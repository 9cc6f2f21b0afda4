"""Files: read within limits, and written whole or not at all.

People open publications of strangers, and files that a full disk or a bad cable damaged: every
reader names its limit with the file, and takes at most 1 GB of memory for any input of 5 MB.
"""

import gzip
import json
import os
import pickle
import stat
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from roofcal.core.units import KIB, MIB, format_bytes

MOST_CONFIG_BYTES: Final = 256 * KIB  # of a YAML file: the largest of config/ has 6 KiB
MOST_TEXT_BYTES: Final = 64 * MIB  # of a CSV or JSON file
MOST_LINE_BYTES: Final = 4 * MIB  # of a record: the longest that was published has 0.5 MiB
# A packed file may unpack to so much. Published measurements unpack to 7 times their size; plans,
# which are small, to 60 times.
MOST_EXPANSION: Final = 12
LEAST_EXPANDED_BYTES: Final = 16 * MIB
# Of an unpacked file: a number takes 32 bytes of memory, however few it has in the text.
LEAST_VALUES: Final = 4_000_000
LEAST_BYTES_PER_VALUE: Final = 6
MOST_DEPTH: Final = 50  # of lists and mappings within each other
MOST_YAML_NODES: Final = 100_000  # with every alias counted as what it stands for
MOST_FILES: Final = 10_000  # of a run folder
_MOST_PROBLEMS: Final = 5  # that one message lists

_DAMAGE: Final = (EOFError, OSError, zlib.error)  # what gzip raises for files that are cut or wrong


class InputError(ValueError):
    """A file that is not read; the message names the file, the reason and the limit."""


def read_limited(path: Path, most: int = MOST_TEXT_BYTES) -> bytes:
    """The bytes of a file; raises InputError for one that cannot be read or has more than `most`.

    No more than that is read, so that /dev/zero is refused too.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason})") from None
    if len(content) > most:
        raise InputError(f"{path}: has more than {format_bytes(most)}, the most that is read")
    return content


def read_text(path: Path, most: int = MOST_TEXT_BYTES) -> str:
    """The text of a file in UTF-8, without a byte order mark; raises InputError, naming the line.

    Line ends are those of the file.
    """
    content = read_limited(path, most)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise InputError(f"{path}:{line}: is not UTF-8 (byte 0x{byte:02x})") from None


def read_json(path: Path, *, constants: bool = False) -> Any:
    """The content of a JSON file; raises InputError for one that is not JSON.

    constants: whether NaN and Infinity are read, which Python's json writes.
    """
    try:
        return parse_json(read_text(path), constants=constants)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{path}: is not JSON ({error})") from None


def parse_json(text: str | bytes, *, constants: bool = False) -> Any:
    """The value of a JSON text; raises ValueError for what is none, and for deep nesting.

    constants: whether NaN and Infinity are read; else they raise ValueError.
    """
    try:
        return json.loads(text, parse_constant=None if constants else _refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def iter_lines(path: Path) -> Iterator[tuple[int, bytes | InputError]]:
    """(line number, line without its end) of a file, unpacked where its name ends in .gz.

    A line that is too long comes as an error, and the lines behind it are read. A file that is
    damaged, or that unpacks to too much, ends with an error. A byte order mark is left out.
    """
    number = values = size = 0
    try:
        with path.open("rb") as packed:
            is_packed = path.suffix == ".gz"
            stream = gzip.GzipFile(fileobj=packed) if is_packed else packed
            largest = max(LEAST_EXPANDED_BYTES, MOST_EXPANSION * path.stat().st_size)
            most = largest if is_packed else None
            while line := stream.readline(MOST_LINE_BYTES + 1):
                number += 1
                size += len(line)
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if len(line) > MOST_LINE_BYTES:
                    size += _skip_line(stream, most)
                    longest = format_bytes(MOST_LINE_BYTES)
                    yield number, InputError(f"{path}:{number}: has more than {longest} in a line")
                    line = b""
                values += line.count(b",") + 1 if most else 0
                _check_expansion(path, most, size, values)
                if line:
                    yield number, line.rstrip(b"\r\n")
    except InputError as error:
        yield number, error
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or error
        where = f"{path}:{number + 1}"
        yield number + 1, InputError(f"{where}: {path.name} is cut off or damaged here ({reason})")


def _skip_line(stream: BinaryIO | gzip.GzipFile, most: int | None) -> int:
    """Bytes up to the end of the line, read and dropped; stops beyond `most`."""
    skipped = 0
    while part := stream.readline(MIB):
        skipped += len(part)
        if part.endswith(b"\n") or (most and skipped > most):
            break
    return skipped


def _check_expansion(path: Path, most: int | None, size: int, values: int) -> None:
    """Raises InputError for a packed file that has unpacked to too many bytes or values."""
    if most is None:
        return
    if size > most:
        raise InputError(
            f"{path}: unpacks to more than {format_bytes(most)}, the most for a file of its size "
            f"({MOST_EXPANSION} times, or {format_bytes(LEAST_EXPANDED_BYTES)})"
        )
    most_values = LEAST_VALUES + size // LEAST_BYTES_PER_VALUE
    if values > most_values:
        raise InputError(
            f"{path}: unpacks to more than {most_values} values, the most that is read"
        )


if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    class _SafeLoader(Composer, CParser, SafeConstructor, Resolver):
        """yaml.SafeLoader whose text libyaml scans: 0.06 s for all of config/, and not 0.42 s.

        yaml.CSafeLoader composes in C too, where nesting cannot be limited.
        """

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)

else:  # PyYAML was built from source where libyaml was missing: the same values, slower
    _SafeLoader = yaml.SafeLoader  # type: ignore[misc,assignment]


class _Loader(_SafeLoader):
    """Reads YAML whose nesting and aliases are limited, and in which no key stands twice."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """See yaml.composer.Composer."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise yaml.YAMLError(f"has more than {MOST_DEPTH} levels within each other")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """See yaml.constructor.SafeConstructor."""
        keys = Counter(
            key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)
        )  # before `<<` merges others in, which may be overridden
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and keys[key.value] > 1:
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"the key '{key.value}' stands {keys[key.value]} times",
                    key.start_mark,
                )
        return super().construct_mapping(node, deep=deep)


def parse_yaml(text: str) -> Any:
    """The value of a YAML text; raises yaml.YAMLError.

    Deep nesting, aliases that expand to too many nodes, and a key given twice in a mapping raise
    it, too. Commands read files of config/ several times: parsing a text again takes a hundredth of
    the time.
    """
    return pickle.loads(_pickled_yaml(text))


@lru_cache(maxsize=128)  # config/ has some 70 files
def _pickled_yaml(text: str) -> bytes:
    """The value pickled, because whoever parses a text may change what it gets."""
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is not None and _expanded_nodes(root, {}) > MOST_YAML_NODES:
            raise yaml.YAMLError(f"has more than {MOST_YAML_NODES} entries, aliases written out")
        return pickle.dumps(None if root is None else loader.construct_document(root))
    except ValueError as error:  # a date such as 2024-13-01, an integer of 5000 digits
        raise yaml.YAMLError(str(error)) from None
    finally:
        loader.dispose()


def _expanded_nodes(node: Any, counts: dict[int, int]) -> int:
    """How many nodes `node` expands to, itself included; an alias counts as all that it refers to.

    counts: of the nodes that were counted before, by identity; 0 marks one that is being counted.
    """
    if id(node) in counts:
        if counts[id(node)] == 0:
            raise yaml.YAMLError("an alias stands within what it stands for")
        return counts[id(node)]
    counts[id(node)] = 0
    children: list[Any] = []
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    elif isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
    counts[id(node)] = 1 + sum(_expanded_nodes(child, counts) for child in children)
    return counts[id(node)]


def check_folder(folder: Path) -> None:
    """Raises InputError with what folder_problems has to say."""
    problems = list(islice(folder_problems(folder), _MOST_PROBLEMS))
    if problems:
        raise InputError("\n".join(problems))


def folder_problems(folder: Path) -> Iterator[str]:
    """Why a folder that somebody else made is not read: links, special files, too many files.

    Nothing that a link points to is opened, and nothing of it is in the messages.
    """
    files = 0
    if folder.is_symlink():
        yield f"{folder}: is a symbolic link; give the folder itself"
        return
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(where) / name
            mode = path.lstat().st_mode
            files += 1
            if stat.S_ISLNK(mode):
                yield f"{path}: is a symbolic link; a run holds regular files alone"
            elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                yield f"{path}: is no regular file; a run holds regular files alone"
        if files > MOST_FILES:
            yield f"{folder}: holds more than {MOST_FILES} files, the most that a run may have"
            return


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, flush it to the disk, rename it.

    Nothing half-written is left at `path`. A device or a pipe, such as /dev/stdout, is written to
    and never replaced. A symbolic link is refused: a link in a folder of a stranger would decide
    which file is overwritten.

    Raises OSError for a link, a folder, a full disk or missing permission; then nothing changed.
    """
    # /dev/stdout is a link to whatever the output was redirected to, a regular file perhaps.
    is_regular = path.parent != Path("/dev") and (path.is_file() or path.is_dir())
    is_special = path.exists() and not is_regular
    if path.is_symlink() and not is_special:
        raise OSError(None, "is a symbolic link; give the file that it points to", str(path))
    if path.is_dir():
        raise OSError(None, "is a folder; give the name of a file", str(path))
    try:
        if is_special:
            with path.open("wb") as stream:
                stream.write(content)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with temporary.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        # An error of a write, such as a full disk, names no file.
        raise OSError(error.errno, error.strerror, error.filename or str(path)) from error
