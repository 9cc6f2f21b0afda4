"""The source files of the checkout, parsed, for the tests that walk them."""

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.paths import ROOT

OWN_PACKAGES = ("roofcal", "kernels", "tests", "tools", "examples", "bench")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    path: Path  # relative to ROOT

    @property
    def name(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def text(self) -> str:
        return (ROOT / self.path).read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    @cached_property
    def imported(self) -> frozenset[str]:
        """Full names of all modules imported anywhere in the file, in functions too."""
        names: set[str] = set()
        for node in _statements(self.tree.body):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}:{node.lineno}: imports here are absolute"
                names.add(str(node.module))
        return frozenset(names)

    def third_party(self) -> set[str]:
        """Top-level packages imported that are neither ours nor of the standard library."""
        tops = {name.partition(".")[0] for name in self.imported}
        return tops - sys.stdlib_module_names - set(OWN_PACKAGES)


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements in a block; ast.walk visits expressions too and takes four times as long."""
    for node in body:
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, block, ()))


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """All modules below the folders of the checkout, sorted by path."""
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(_module(path.relative_to(ROOT)) for path in sorted(paths))


@cache  # parsing the checkout takes two seconds
def _module(path: Path) -> Module:
    return Module(path)
