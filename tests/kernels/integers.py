"""The integers of compiled kernels, computed as if they had any number of bits.

A count that passes 2^31 in 32 bits is a fault that no test of a small matrix meets, and the large
ones fit on no test machine. So entry points are called with tensors without memory; of each launch
the compiler makes its first representation, in which types of integers are decided, and here its
arithmetic is repeated for the first and the last program: every value is an interval, of what is
read from memory nothing is known, and whatever does not fit into its type is a fault.
"""

import itertools
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from triton._C.libtriton import ir

Interval = tuple[int, int] | None  # None: not known
_MOST_PROGRAMS: Final = (2**31 - 1, 65535, 65535)  # of a grid (CUDA C++ Programming Guide)
_SAME: Final = frozenset(
    (
        *("tt.splat", "tt.unsplat", "tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.trans"),
        *("tt.split", "tt.join", "tt.cat", "ttg.convert_layout"),
        *("arith.extsi", "arith.extui", "arith.trunci"),
    )
)
# What they return depends on memory, or is no integer that an address is made of.
_DATA: Final = re.compile(
    r"tt\.(load|descriptor_load|atomic|elementwise_inline_asm|reduce|int_to_ptr|ptr_to_int|dot|gather"
    r"|addptr|bitcast|fp_to_fp|clampf|histogram)|ttg\.(local|memdesc|async|warp_id)|ttng\.|gpu\."
    r"|arith\.(\w*f|[su]itofp|bitcast|\w+f\w*)$|math\.|ub\.|tt\.mulhiui|llvm\."
)
_OPERATION: Final = re.compile(r"^(?:(%[^=]*?) = )?\"?([a-z_]+\.[\w.]+)\"?(.*)$")
_LOCATION: Final = re.compile(r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


class _Operation(NamedTuple):
    """A line, with the regions that it opens: names of their arguments, and their operations."""

    results: list[str]
    name: str
    rest: str
    place: str
    regions: list[tuple[list[str], list["_Operation"]]]


class Text:
    """The operations of a printed module."""

    def __init__(self, text: str) -> None:
        self._locations = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE))
        lines = text[text.index("tt.func public") :].splitlines()
        self._places = [x[-1] if (x := re.findall(r"loc\((#loc\d*)\)", y)) else "" for y in lines]
        self._lines = [_LOCATION.sub("", line).strip() for line in lines]
        self.arguments = dict(re.findall(r"(%[\w.$-]+): ([!\w.<]+)", self._lines[0]))
        self.operations, _ = self._block(1)

    def _block(self, at: int) -> tuple[list[_Operation], int]:
        """(its operations, the line that ends it)."""
        operations = []
        while not self._lines[at].startswith("}"):
            found = _OPERATION.match(self._lines[at])
            place, regions = self._places[at], []
            if found and found.group(2) == "ttg.warp_specialize":
                while self._lines[at + 1].startswith(("default", "partition")):
                    region, at = self._region(at + 1)
                    regions.append(region)
            else:
                while self._lines[at].endswith("{"):  # also of "} else {" and "}, {"
                    region, at = self._region(at)
                    regions.append(region)
            if found:
                results, name, rest = found.groups()
                operation = _Operation(_names(results), name, rest, place, regions)
                operations.append(operation)
            at += 1
        return operations, at

    def _region(self, at: int) -> tuple[tuple[list[str], list[_Operation]], int]:
        head = self._lines[at]
        if self._lines[at + 1].startswith("^"):
            at += 1
            head = self._lines[at]
        operations, end = self._block(at + 1)
        return (re.findall(r"(%[\w.$-]+): ", head), operations), end

    def place(self, location: str) -> str:
        """File of kernels/ and line of a location, "" where it has none."""
        text = self._locations.get(location, "")
        own = re.search(r'kernels/(\S+\.py)":(\d+)', text)
        if own:
            return f"{own.group(1)}:{own.group(2)}"
        inner = re.findall(r"#loc\d+", text)
        return next((place for x in inner if (place := self.place(x))), "")


class _Program:
    """One program of a kernel: computes its integers and collects what does not fit."""

    def __init__(self, text: Text, place: Sequence[int], grid: Sequence[int]) -> None:
        self._text, self._place, self._grid = text, place, grid
        self._values: dict[str, Interval] = {}
        self.faults: dict[str, None] = {}

    def run(self, numbers: Mapping[str, int]) -> None:
        """Compute everything for these sizes."""
        for name, kind in self._text.arguments.items():
            known = name in numbers and kind.startswith("i")
            self._values[name] = (numbers[name], numbers[name]) if known else None
        self._run(self._text.operations)

    def _run(self, operations: Sequence[_Operation]) -> list[Interval]:
        """What the operations of a region yield."""
        yielded: list[Interval] = []
        for each in operations:
            operands = self._operands(each)
            if each.name.endswith("yield"):
                yielded = operands
            elif each.name == "scf.for":
                self._set(each.results, self._run_loop(each, operands))
            elif each.name == "scf.if":
                self._set(each.results, self._run_branches(each, operands[0]))
            elif each.regions:
                self._run_regions(each, operands)
            else:
                self._set(each.results, [self._value(each, operands)] * len(each.results))
        return yielded

    def _operands(self, each: _Operation) -> list[Interval]:
        text = each.rest if each.regions else each.rest.rpartition(" : ")[0] or each.rest
        return [self._values.get(name) for name in re.findall(r"%[\w.$#-]+", text)]

    def _set(self, names: Sequence[str], values: Sequence[Interval]) -> None:
        self._values.update(zip(names, values, strict=True))

    def _run_loop(self, each: _Operation, operands: list[Interval]) -> list[Interval]:
        """What a loop returns, after its first and its last turn."""
        _, lower, upper, step, *_ = operands
        (index, _), *pairs = re.findall(r"(%[\w.$-]+) = (%[\w.$#-]+)", each.rest)
        names, first = [a for a, _ in pairs], [self._values.get(b) for _, b in pairs]
        body = each.regions[0][1]
        unknown: list[Interval] = [None] * len(pairs)
        if lower is None or upper is None or step is None:
            self._set([index, *names], [None, *unknown])
            self._run(body)
            return unknown
        turns = max(0, -((lower[0] - upper[1]) // step[0]))
        if turns == 0:
            return first
        last = lower[0] + (turns - 1) * step[0]
        self._checked((last, last + step[1]), each)  # the next one is made and then compared
        self._set([index, *names], [(lower[0], lower[0]), *first])
        steps = [_difference(b, a) for a, b in zip(first, self._run(body), strict=True)]
        if turns > 1:
            now = [_moved(x, by, turns - 1) for x, by in zip(first, steps, strict=True)]
            self._set([index, *names], [(last, last), *now])
            self._run(body)
        return [_moved(x, by, turns) for x, by in zip(first, steps, strict=True)]

    def _run_branches(self, each: _Operation, condition: Interval) -> list[Interval]:
        """What the branches yield that can be taken."""
        taken = [
            self._run(operations)
            for is_else, (_, operations) in enumerate(each.regions)
            if condition is None or condition[0] != condition[1] or condition[0] != is_else
        ]
        if not each.results:
            return []
        return [_union(values) for values in zip(*taken, strict=True)]

    def _run_regions(self, each: _Operation, operands: list[Interval]) -> None:
        """Regions of an operation whose results are not known; partitions get its operands."""
        for names, operations in each.regions:
            is_partition = each.name == "ttg.warp_specialize"
            self._set(names, operands[: len(names)] if is_partition else [None] * len(names))
            self._run(operations)
        self._set(each.results, [None] * len(each.results))

    def _value(self, each: _Operation, operands: list[Interval]) -> Interval:
        name = each.name
        if name in _SOURCES:
            return _SOURCES[name](each.rest, self._place, self._grid)
        if _DATA.match(name) or not operands:
            return None
        if name == "arith.select":
            condition, yes, no = operands
            value = {(1, 1): yes, (0, 0): no}.get(condition or (0, 1), _union((yes, no)))
        elif name in _SAME:
            value = _union(operands)
        elif None in operands:
            return None
        elif name == "arith.cmpi":
            return _compared(each.rest.split(",")[0].strip(), *operands)
        else:  # a KeyError: an operation that this module should know
            value = _ARITHMETIC[name](*operands)
        return self._checked(value, each)

    def _checked(self, value: Interval, each: _Operation) -> Interval:
        """The value; of one that does not fit into its type, a fault is noted."""
        bits = re.findall(r"(?:\b|x)i(\d+)\b", each.rest.rpartition(" : ")[2])
        if value is None or not bits:
            return value
        most = 2 ** (int(bits[-1]) - 1)
        if int(bits[-1]) > 1 and not (-most <= value[0] and value[1] < most):
            self.faults[f"{self._text.place(each.place)}: {value} in{each.rest}"] = None
            return None
        return value


def _names(results: str | None) -> list[str]:
    """Of "%a:2, %b": %a#0, %a#1, %b."""
    pairs = [name.partition(":") for name in (results or "").split(", ") if name]
    return [
        name
        for base, _, count in pairs
        for name in ([f"{base}#{i}" for i in range(int(count))] if count else [base])
    ]


def _constant(rest: str) -> Interval:
    found = re.match(r" (?:dense<)?(-?\d+|true|false)>? ?(?::|loc|$)", rest)
    if found is None:
        return None
    text = found.group(1)
    value = int(text) if text not in ("true", "false") else int(text == "true")
    return (value, value)


def _range(rest: str) -> Interval:
    ends = {name: int(number) for name, number in re.findall(r"(end|start) = (-?\d+)", rest)}
    return ends["start"], ends["end"] - 1


def _at(sizes: Sequence[int], rest: str) -> Interval:
    size = sizes["xyz".index(rest.split(maxsplit=1)[0])]
    return size, size


def _union(values: Any) -> Interval:
    known = list(values)
    if not known or None in known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _difference(after: Interval, before: Interval) -> int | None:
    if after is None or before is None or after[0] - before[0] != after[1] - before[1]:
        return None
    return after[0] - before[0]


def _moved(value: Interval, by: int | None, times: int) -> Interval:
    if value is None or by is None:
        return None
    return value[0] + by * times, value[1] + by * times


def _compared(how: str, a: Any, b: Any) -> Interval:
    if how not in ("slt", "sle", "sgt", "sge", "eq", "ne"):
        return (0, 1)
    if how[1] == "g":
        a, b, how = b, a, how.replace("g", "l")
    if how in ("slt", "sle"):
        more = how == "slt"
        always, never = a[1] + more <= b[0], a[0] + more > b[1]
    else:
        same, apart = a == b and a[0] == a[1], a[1] < b[0] or b[1] < a[0]
        always, never = (same, apart) if how == "eq" else (apart, same)
    return (1, 1) if always else (0, 0) if never else (0, 1)


def _ends(function: Any, a: Any, b: Any) -> Interval:
    values = [function(x, y) for x, y in itertools.product(a, b)]
    return min(values), max(values)


def _divided(a: Any, b: Any) -> Interval:
    return None if b[0] <= 0 else _ends(lambda x, y: abs(x) // y * (1 if x >= 0 else -1), a, b)


def _remainder(a: Any, b: Any) -> Interval:
    if b[0] <= 0 or a[0] < 0:
        return None
    if b[0] == b[1] and a[0] // b[0] == a[1] // b[0]:
        return a[0] % b[0], a[1] % b[0]
    return 0, min(a[1], b[1] - 1)


def _and(a: Any, b: Any) -> Interval:
    return (0, min(a[1], b[1])) if a[0] >= 0 and b[0] >= 0 else None


_SOURCES: Final = {
    "arith.constant": lambda rest, *_: _constant(rest),
    "tt.make_range": lambda rest, *_: _range(rest),
    "tt.get_program_id": lambda rest, place, _: _at(place, rest),
    "tt.get_num_programs": lambda rest, _, grid: _at(grid, rest),
}
_ARITHMETIC: Final = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "arith.subi": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "arith.muli": lambda a, b: _ends(lambda x, y: x * y, a, b),
    "arith.divsi": _divided,
    "arith.divui": _divided,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.minsi": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "arith.maxsi": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "arith.shli": lambda a, b: _ends(lambda x, y: x << y, a, b),
    "arith.shrsi": lambda a, b: _ends(lambda x, y: x >> y, a, b),
    "arith.andi": _and,
    "arith.ori": lambda a, b: (0, a[1] | b[1]) if (a[1] | b[1]) <= 1 else None,
    "arith.xori": lambda a, b: (a[0] ^ b[0],) * 2 if a[0] == a[1] and b[0] == b[1] else None,
}
_TEXTS: Final[dict[Hashable, Text]] = {}


def _text_of(kernel: Any, bound: Mapping[str, Any], options: Any, how: Any) -> Text:
    """What the compiler makes first of a launch, before it chooses instructions."""
    *_, target, backend, _ = kernel.device_caches[0]
    given, *rest = kernel._pack_args(backend, dict(options), bound, *how)
    key = (kernel, target.arch, str(given), *map(str, rest))
    if key not in _TEXTS:
        source = kernel.ASTSource(kernel, *rest)
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        functions = backend.get_codegen_implementation(given)
        module = source.make_ir(target, given, functions, backend.get_module_map(), context)
        stages: dict[str, Any] = {}
        backend.add_stages(stages, given, source.language)
        _TEXTS[key] = Text(str(next(iter(stages.values()))(module, {})))
    return _TEXTS[key]


def faults_of(
    kernel: Any, args: Sequence[Any], options: Mapping[str, Any], grid: Sequence[int]
) -> list[str]:
    """What does not fit into its type, in the programs at the corners of the grid of a launch."""
    *_, binder = kernel.device_caches[0]
    bound, *how = binder(*args, **options, debug=False)
    numbers = {f"%{name}": value for name, value in bound.items() if isinstance(value, int)}
    shapes = [x.shape for x in bound.values() if hasattr(x, "block_shape")]
    faults = [f"descriptor: got shape {list(x)}" for x in shapes if max(x) >= 2**31]
    return faults + faults_in(_text_of(kernel, bound, options, how), numbers, grid)


def faults_in(text: Text, numbers: Mapping[str, int], grid: Sequence[int]) -> list[str]:
    """The same of a text, in which the arguments `numbers` (by their names in it) are known."""
    whole = (*grid, 1, 1)[:3]
    faults = [
        f"grid: wanted at most {_MOST_PROGRAMS}, got {whole}"
        for size, most in zip(whole, _MOST_PROGRAMS, strict=True)
        if size > most
    ]
    for place in sorted(itertools.product(*({0, size - 1} for size in whole))):
        program = _Program(text, place, whole)
        program.run(numbers)
        faults += program.faults
    return list(dict.fromkeys(faults))
