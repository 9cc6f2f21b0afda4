"""Runs the notebooks of docs/notebooks and writes their outputs into them.

Run: python -m tools.run_notebooks; a test fails where a notebook prints something else than it
shows. Notebooks run in ipykernel, in the environment of this program.
"""

import os
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

ROOT: Final = Path(__file__).resolve().parent.parent
NOTEBOOKS: Final = tuple(sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")))


def run_notebook(path: Path) -> Any:
    """The notebook with what its cells print now; raises CellExecutionError for one that fails."""
    notebook = nbformat.read(path, as_version=4)
    os.environ["PYTHONPATH"] = str(ROOT)  # the kernel inherits it and imports this checkout
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}})
    client.execute()
    for cell in notebook.cells:
        cell.metadata = {}  # when each cell ran, which is another time each time
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    return notebook


def shown_text(notebook: Any) -> list[str]:
    """What each cell with code shows, as text."""
    return [
        "".join(output.get("text") or output["data"]["text/plain"] for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


if __name__ == "__main__":
    for file in NOTEBOOKS:
        nbformat.write(run_notebook(file), file)
        print(file)
