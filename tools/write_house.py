"""Write docs/house.md, the rooms of roofcal and kernels and who imports whom, from the code.

Run: python -m tools.write_house; a test fails when the page and the imports disagree.
"""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "house.md"
_TABLE = """
No rooms import each other in a circle: every room imports rooms of later rows alone.

| room | what it holds | imports |
|---|---|---|
"""
_HEAD = """\
# The house

The packages ("rooms") of `roofcal` and `kernels`, and which of them imports which.
`python -m tools.write_house` writes this page from the import statements; a test compares the two.
What is allowed stands in `[tool.importlinter]` of `pyproject.toml`. Modules that are loaded by
their names, such as the parts of an op, are not drawn here: see
[CONTRIBUTING.md](../CONTRIBUTING.md).

An arrow leads from a room to one that it imports. Arrows that follow from others are left out.

"""


def imports_by_room() -> dict[str, set[str]]:
    """Room, such as roofcal.ops -> the other rooms that its modules import directly."""
    graph = grimp.build_graph("roofcal", "kernels")
    rooms = {name for name in graph.modules if name.count(".") == 1}
    imports: dict[str, set[str]] = {room: set() for room in rooms}
    for module in graph.modules:
        names = {_room(name) for name in graph.find_modules_directly_imported_by(module)}
        if _room(module) in rooms:
            imports[_room(module)] |= (names & rooms) - {_room(module)}
    return imports


def house_page(imports: dict[str, set[str]]) -> str:
    """The text of docs/house.md; raises graphlib.CycleError for rooms that import in a circle."""
    order = _from_the_top(imports)
    arrows = [
        f"    {room} --> {name}"
        for room in order
        for name in order
        if name in _without_detours(room, imports)
    ]
    diagram = "\n".join(["```mermaid", "flowchart TD", *arrows, "```", ""])
    below = {room: ", ".join(name for name in order if name in imports[room]) for room in order}
    rows = [f"| `{room}` | {_meaning(room)} | {below[room] or '-'} |\n" for room in order]
    return f"{_HEAD}{diagram}{_TABLE}{''.join(rows)}"


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _from_the_top(imports: dict[str, set[str]]) -> list[str]:
    """Rooms in an order in which each one stands before all that it imports."""
    sorter = TopologicalSorter(imports)
    sorter.prepare()
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), reverse=True)
        order += ready
        sorter.done(*ready)
    return order[::-1]


def _without_detours(room: str, imports: dict[str, set[str]]) -> set[str]:
    """The imports of a room that none of its other imports leads to."""
    return {
        below
        for below in imports[room]
        if not any(below in _reachable(other, imports) for other in imports[room] - {below})
    }


def _reachable(room: str, imports: dict[str, set[str]]) -> set[str]:
    return imports[room].union(*(_reachable(below, imports) for below in imports[room]))


def _meaning(room: str) -> str:
    """The first line of the docstring of a package or a module."""
    path = ROOT.joinpath(*room.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return docstring.partition("\n")[0]


if __name__ == "__main__":
    PAGE.write_text(house_page(imports_by_room()), encoding="utf-8")
    print(PAGE)
