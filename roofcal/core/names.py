"""Names: what one may be made of, and which of the allowed ones a person probably meant."""

import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

# Devices, environments and ops name folders and files, and stand in commands: letters, digits and
# . _ + - alone, and no dot at the start. So "..", a space, "$(...)" or "{x}" is no name.
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$"
# A model of time, or the calibrated one with the constants of another environment: calibrated@<id>.
MODEL_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}(@[A-Za-z0-9][A-Za-z0-9._+-]{0,199})?$"

# Providers, recipes (axiswise*axiswise@two_level+...) and constants stand in tables and messages,
# never in paths.
LABEL_PATTERN: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.+*@:/ -]{0,299}$"

# Characters that steer a terminal or turn text around: C0 but tab and line feed, C1, DEL, bidi.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


# A function of C++ as tools print it, with template arguments or parameters behind its name.
_DEMANGLED: Final = re.compile(r"(?:[\w ]+ )?(?:\w+::)*(\w+)[<(].*")
# CUTLASS launches every kernel through one of these; the kernel is its template argument.
_WRAPPERS: Final = frozenset({"Kernel", "Kernel2", "device_kernel"})


def printable(text: str) -> str:
    """The text with its control characters as escapes, which a terminal shows and does not obey."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def is_name(text: str) -> bool:
    """Whether a text may name a device, an environment or an op."""
    return re.fullmatch(NAME_PATTERN, text) is not None and "\n" not in text


def did_you_mean(
    word: str, allowed: Iterable[str], *, otherwise: str = "", cutoff: float = 0.6
) -> str:
    """The end of a message about an unknown name: "; did you mean 'gemm'?".

    Where `word` is part of allowed names, as fp8 is of fp8_tensorwise, it suggests all of these,
    else the nearest name.

    otherwise: what to return where no allowed name is close to `word`.
    cutoff: how alike the nearest must be, from 0 to 1; long names need less.
    """
    names = list(allowed)
    close = names_with_part(word, names)
    close = close or difflib.get_close_matches(word.lower(), names, n=1, cutoff=cutoff)
    return "; did you mean " + " or ".join(map(repr, close)) + "?" if close else otherwise


def names_with_part(word: str, allowed: Iterable[str]) -> list[str]:
    """The names that contain a word; none for an empty word."""
    return [name for name in allowed if word and is_part(word, name)]


def is_commit(text: str) -> bool:
    """Whether a text is a commit's hash or the start of one, which git can check out."""
    return re.fullmatch("[0-9a-f]{7,40}", text) is not None


def is_part(word: str, name: str) -> bool:
    """Whether a name has all words of `word` in their order: int4_g128 in int4_groupwise_g128."""
    words = iter(name.replace("_", "-").split("-"))
    return all(part in words for part in word.lower().replace("_", "-").split("-"))


@cache
def short_kernel_name(name: str) -> str:
    """The name that people know a kernel of C++ by; other names, as of Triton, stay as they are.

    Namespaces, template arguments and parameters are left out, of mangled names (Itanium C++ ABI,
    section 5.1) as of demangled ones: _ZN2at6native13reduce_kernelILi512E... is reduce_kernel.
    """
    if not name.startswith("_Z"):
        demangled = _DEMANGLED.fullmatch(name.replace("(anonymous namespace)::", ""))
        return demangled[1] if demangled else name
    names, rest = _mangled_names(name.removeprefix("_Z"))
    if not name.startswith("_ZN"):  # in no namespace: names behind the first are of parameters
        names = names[:1]
    elif names and names[-1] in _WRAPPERS and rest.startswith("I"):
        names = _mangled_names(rest[1:])[0] or names
    return names[-1] if names else name


def _mangled_names(text: str) -> tuple[list[str], str]:
    """The names that a mangled text begins with, from the outermost in; and what follows them."""
    names, rest = [], text.removeprefix("N")
    while name_length := re.match(r"[1-9]\d*", rest):
        end = name_length.end() + int(name_length[0])
        names.append(rest[name_length.end() : end])
        rest = rest[end:]
    return names, rest


def with_short_names(devices: Iterable[str]) -> list[str]:
    """Ids of devices, then what stands behind their vendors: nvidia-h200, ..., h200, ..."""
    ids = list(devices)
    return [*ids, *(device.partition("-")[2] for device in ids)]


def did_you_mean_or_all(word: str, allowed: Iterable[str]) -> str:
    """As did_you_mean; where no allowed name is close, all of them: "; allowed: cast, gemm"."""
    names = list(allowed)
    return did_you_mean(word, names, otherwise=f"; allowed: {', '.join(sorted(names))}")


def unknown_names(
    where: str, what: str, names: Iterable[str], allowed: Iterable[str]
) -> Iterator[str]:
    """One error line for each of `names` that is not allowed, with the nearest allowed one.

    where, what: place in a file and kind of name, as in "config.yaml: ops: unknown op 'gem'".
    """
    allowed = tuple(allowed)
    for name in names:
        if name not in allowed:
            yield f"{where}: unknown {what} '{name}'{did_you_mean_or_all(name, allowed)}"
