"""One self-contained HTML page of one or more runs, and the tables behind it as CSV."""

import gzip
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from roofcal.claims.ledgers import Entry
from roofcal.core.devices import load_devices
from roofcal.core.files import write_bytes
from roofcal.report.chapter import Chapter, ChapterBuilder
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.loading import ReportError, Run, load_run
from roofcal.report.data.op_pages import glossary_ops
from roofcal.report.data.provenance import calibration_path
from roofcal.report.data.table_files import as_csv, write_csv
from roofcal.report.kit.blocks import FigureBlock, Table
from roofcal.report.kit.svg import standalone
from roofcal.report.kit.templates import FOLDER, render
from roofcal.report.section import CsvTable
from roofcal.report.summary import device_line, device_table


def write_report(
    runs: Sequence[tuple[Path, Path | None]],
    out: Path,
    devices_folder: Path,
    claims: Sequence[Entry] = (),
    figures: Path | None = None,
) -> None:
    """Write the page to `out` and tables/*.csv beside it; equal records give equal bytes.

    GPUs come first.

    Args:
        runs: (run folder, folder of its calibration and predictions; None: the run folder itself).
        out: file of the page.
        devices_folder: datasheets.
        claims: of the ledger, judged on every run; a publication is frozen without them, because
            the ledger grows on.
        figures: folder for every figure as an SVG file, <question>/<chapter>/<figure>.<op>.svg.

    Raises:
        ReportError: there is no run, or the calibration of a run is of another device.
        RecordsError, ConfigError: a file is bad; then no page was changed.
        OSError: a file cannot be written.
    """
    if not runs:
        raise ReportError("no run to report: give at least one run folder")
    specs = load_devices(devices_folder)
    loaded = sorted((load_run(*pair) for pair in runs), key=_rank)
    chapters: list[Chapter] = []
    lines: list[dict[str, Any]] = []
    tables: list[tuple[str, pd.DataFrame]] = []
    for number, (anchor, run) in enumerate(_with_anchors(loaded)):
        device = run.environment.device
        calibrations = _calibrations(loaded, device)
        analysis = analyse(
            run, specs.get(device), peers=loaded, calibrations=calibrations, claims=claims
        )
        builder = ChapterBuilder(analysis)
        chapters.append(builder.chapter(anchor, number))
        lines.append(device_line(analysis))
        tables += _labelled(builder.tables(), analysis)
    files = _joined(tables)
    page = _page(chapters, device_table(lines), files)
    for name, frame in files.items():
        write_csv(out.parent / "tables" / name, frame)
    if figures is not None:
        for name, svg in figure_files(chapters):
            write_bytes(figures / name, svg.encode())
    write_bytes(out, page.encode())


def tables_of_run(run: Path, devices_folder: Path) -> dict[str, str]:
    """File name -> CSV text of every table beside the report of one run, without drawing it.

    Raises as write_report.
    """
    loaded = load_run(run)
    analysis = analyse(loaded, load_devices(devices_folder).get(loaded.environment.device))
    files = _joined(_labelled(ChapterBuilder(analysis).tables(), analysis))
    return {name: as_csv(frame) for name, frame in files.items()}


def figure_files(chapters: Sequence[Chapter]) -> Iterator[tuple[str, str]]:
    """(path, SVG) of every figure; `_` in the name of a question stands for a space."""
    for chapter in chapters:
        for question in chapter.questions:
            folder = question.title.removesuffix("?").replace(" ", "_")
            for section in question.sections:
                for block in section.blocks:
                    if isinstance(block, FigureBlock):
                        name = f"{folder}/{chapter.id}/{block.key}.{block.op}.svg"
                        yield name, standalone(block.svg)


def _labelled(tables: Iterable[CsvTable], analysis: Analysis) -> Iterator[tuple[str, pd.DataFrame]]:
    return ((table.name, table.labelled(analysis)) for table in tables)


def _joined(tables: Iterable[tuple[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """File name -> all its rows, by name; a file without any row has its columns."""
    parts: dict[str, list[pd.DataFrame]] = {}
    for name, frame in tables:
        parts.setdefault(name, []).append(frame)
    filled = {name: [f for f in frames if len(f)] for name, frames in parts.items()}
    return {
        name: pd.concat(filled[name]) if filled[name] else parts[name][0] for name in sorted(parts)
    }


def _rank(run: Run) -> tuple[Any, ...]:
    """GPUs before CPUs, then by device, then what was measured before what was published."""
    environment = run.environment
    is_cpu = environment.vendor == "cpu"
    return is_cpu, environment.device, run.origin, environment.environment_id


def _with_anchors(runs: Sequence[Run]) -> Iterator[tuple[str, Run]]:
    """Each run with the id of its chapter: the device, and the environment where it has several."""
    devices = [run.environment.device for run in runs]
    for run in runs:
        environment = run.environment
        several = devices.count(environment.device) > 1
        tail = f"-{environment.environment_id[-8:]}-{run.origin}" if several else ""
        yield f"{environment.device}{tail}", run


def _calibrations(runs: Sequence[Run], device: str) -> dict[str, str]:
    """Environment -> calibration file of a device; of several runs of one the first counts."""
    own = [run for run in reversed(runs) if run.environment.device == device]
    return {run.environment.environment_id: calibration_path(run) for run in own}


def _page(chapters: Sequence[Chapter], devices: Table, tables: Mapping[str, pd.DataFrame]) -> str:
    """The page, which carries the tables that its links name."""
    blocks = [block for chapter in chapters for block in chapter.blocks]
    linked = {block.source for block in blocks if isinstance(block, FigureBlock | Table)}
    return render(
        "report.html.j2",
        chapters=chapters,
        devices=devices,
        glossary_ops=glossary_ops(),
        files={name: _packed(as_csv(frame)) for name, frame in tables.items() if name in linked},
        style=(FOLDER / "style.css").read_text(encoding="utf-8"),
        script=(FOLDER / "tables.js").read_text(encoding="utf-8"),
    )


def _packed(text: str) -> str:
    """A file as the page carries it: gzip without a date, in base64."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()
