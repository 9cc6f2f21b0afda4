"""Counts of the campaign as a table, which docs/survives.md shows.

Nothing here imports torch or a fit, which takes 4 s of CPU: eight processes wait for SLURM.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.campaign.slurm_study import cluster_folder, shared_cluster
from tests.roofcal.measure.runs import run  # noqa: F401 (a fixture)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a cluster that runs."""
    with shared_cluster(cluster_folder(tmp_path_factory.getbasetemp())) as folder:
        yield folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one table per kind of result that tests recorded as the property `campaign`."""
    reports = [
        r for rs in terminalreporter.stats.values() for r in rs if getattr(r, "when", "") == "call"
    ]
    results = [value for r in reports for name, value in r.user_properties if name == "campaign"]
    tables: dict[tuple[str, ...], dict[str, list[dict[str, object]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        title, *columns = result
        tables[title, *columns][result[title]].append(result)
    for (title, *columns), by_title in tables.items():
        rows = [
            {title: name, "tries": len(of_name), **{c: summed(c, of_name) for c in columns}}
            for name, of_name in sorted(by_title.items())
        ]
        terminalreporter.write_line("")
        terminalreporter.write_line(markdown_table([title, "tries", *columns], rows))


def summed(column: str, results: list[dict[str, object]]) -> object:
    """The sum of a column; of `largest ...`, the largest."""
    values = [float(str(result[column])) for result in results]
    total = max(values) if column.startswith("largest") else sum(values)
    return f"{total:g}"


def markdown_table(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Rows as a table in Markdown, for docs/survives.md."""
    lines = [[*names], ["---"] * len(names), *([str(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
