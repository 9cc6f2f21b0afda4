"""One self-contained HTML page of one or more runs, and the tables behind it as CSV."""

import gzip
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
import pandas as pd

from roofcal.claims.ledgers import Entry
from roofcal.core.devices import load_devices
from roofcal.core.files import write_bytes
from roofcal.core.paths import CHECKOUT
from roofcal.report.chapter import Writer
from roofcal.report.data.analysis import Analysis, analyse, with_shape
from roofcal.report.data.loading import ReportError, Run, load_run
from roofcal.report.data.provenance import calibration_home
from roofcal.report.data.table_files import as_csv, write_csv
from roofcal.report.glance import GLANCE, glance_row
from roofcal.report.kit.blocks import Chapter, FigureBlock, Table, make_table
from roofcal.report.kit.svg import standalone
from roofcal.report.sections.claims import section as claims_section
from roofcal.report.sections.gathered import overlap as gathered_section
from roofcal.report.sections.health import section as health_section
from roofcal.report.sections.linear_accuracy import tables as linear_accuracy_section
from roofcal.report.sections.mixed import tables as mixed_section
from roofcal.report.sections.transfer import table as transfer_section

TEMPLATES: Final = CHECKOUT / "reports" / "templates"


def write_report(
    runs: Sequence[tuple[Path, Path | None]],
    out: Path,
    devices_folder: Path,
    claims: Sequence[Entry] = (),
    figures: Path | None = None,
) -> None:
    """Write the page to `out` and tables/*.csv beside it; equal records give equal bytes.

    runs: (run folder, folder of its calibration and predictions; None: the run folder itself).
    claims: of the ledger, judged on every run; a publication is frozen without them, because the
    ledger grows on.
    figures: folder for every figure as an SVG file, <question>/<chapter>/<figure>.<op>.svg.
    GPUs come first. Raises ReportError without a run or for a calibration of another device,
    RecordsError and ConfigError for bad files, OSError; then no page was changed.
    """
    if not runs:
        raise ReportError("no run to report: give at least one run folder")
    specs = load_devices(devices_folder)
    loaded = sorted((load_run(*pair) for pair in runs), key=_rank)
    chapters: list[Chapter] = []
    glance: list[dict[str, Any]] = []
    tables: dict[str, list[pd.DataFrame]] = {}
    for number, (anchor, run) in enumerate(_anchored(loaded)):
        others = _calibrations(loaded, run.environment.device)
        analysis = analyse(run, specs.get(run.environment.device), others, claims, loaded)
        chapters.append(Writer(analysis, anchor, number).chapter())
        glance.append(glance_row(analysis))
        for name, frame in csv_tables(analysis):
            tables.setdefault(name, []).append(frame)
        if analysis.claims:
            judged = _labelled(claims_section.claims_table(analysis.claims), analysis)
            tables.setdefault(claims_section.SOURCE, []).append(judged)
    files = {name: _joined(frames) for name, frames in sorted(tables.items())}
    page = _page(chapters, glance, {name: packed(as_csv(frame)) for name, frame in files.items()})
    for name, frame in files.items():
        write_csv(out.parent / "tables" / name, frame)
    if figures is not None:
        for name, svg in figure_files(chapters):
            write_bytes(figures / name, svg.encode())
    write_bytes(out, page.encode())


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


def packed(text: str) -> str:
    """A file as the page carries it: gzip without a date, in base64."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def tables_of(run: Path, devices_folder: Path) -> dict[str, str]:
    """File name -> CSV text of every table beside the report of one run, without drawing it.

    Raises as write_report.
    """
    loaded = load_run(run)
    analysis = analyse(loaded, load_devices(devices_folder).get(loaded.environment.device))
    tables: dict[str, list[pd.DataFrame]] = {}
    for name, frame in csv_tables(analysis):
        tables.setdefault(name, []).append(frame)
    return {name: as_csv(_joined(frames)) for name, frames in sorted(tables.items())}


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    full = [frame for frame in frames if len(frame)]
    return pd.concat(full) if full else frames[0]


def _rank(run: Run) -> tuple[Any, ...]:
    """GPUs before CPUs, then by device, then what was measured before what was published."""
    environment = run.environment
    return (
        environment.vendor == "cpu",
        environment.device,
        run.origin,
        environment.environment_id,
    )


def _anchored(runs: Sequence[Run]) -> Iterator[tuple[str, Run]]:
    """Each run with the id of its chapter: the device, and what tells two of the same apart."""
    devices = [run.environment.device for run in runs]
    for run in runs:
        environment = run.environment
        several = devices.count(environment.device) > 1
        tail = f"-{environment.environment_id[-8:]}-{run.origin}" if several else ""
        yield f"{environment.device}{tail}", run


def _calibrations(runs: Sequence[Run], device: str) -> dict[str, str]:
    """Calibration files of a device by environment; of several runs of one the first counts."""
    some = [run for run in reversed(runs) if run.environment.device == device]
    return {run.environment.environment_id: calibration_home(run) for run in some}


def csv_tables(a: Analysis) -> Iterator[tuple[str, pd.DataFrame]]:
    """(file name, table) of a run: tidy frames by device and op, and what was made of them."""
    for op, frame in a.frames.items():
        yield f"{a.device}_{op}.csv", _labelled(frame, a, last=True)
    yield "error_by_regime.csv", _labelled(a.errors, a)
    yield "violations.csv", _labelled(a.violations, a)
    yield "not_ok.csv", _labelled(a.missing, a)
    yield "quality.csv", _labelled(a.quality, a)
    if len(a.constants):
        yield "constants.csv", _labelled(a.constants.drop(columns="headline"), a)
    if len(a.panel):
        yield "method_panel.csv", _labelled(with_shape(a.panel), a)
    for table in a.speedups.values():
        yield "speedups.csv", _labelled(table, a)
    yield from _tables_of_ops(a)
    if len(a.breakeven):
        yield "breakeven.csv", _labelled(a.breakeven, a)
    if len(a.learning):
        yield "learning.csv", _labelled(a.learning, a)
    if len(a.llm):
        yield "llm.csv", _labelled(a.llm, a)
    if len(a.health.points):
        yield health_section.SOURCE, _labelled(a.health.points, a)
    if len(a.transfers):
        yield transfer_section.SOURCE, _labelled(a.transfers, a)


def _tables_of_ops(a: Analysis) -> Iterator[tuple[str, pd.DataFrame]]:
    """What was made of the tidy frame of one op, where it has rows."""
    narrow = a.frames.get(mixed_section.OP)
    if narrow is not None and len(narrow):
        yield mixed_section.WINNERS_SOURCE, _labelled(mixed_section.winners(narrow), a)
        roofs = mixed_section.roofs_table(narrow, a.run.calibration)
        yield mixed_section.ROOFS_SOURCE, _labelled(roofs, a)
        yield mixed_section.ERRORS_SOURCE, _labelled(mixed_section.errors_table(narrow), a)
    linears = a.frames.get(linear_accuracy_section.OP)
    if linears is not None and len(linears):
        yield from linear_accuracy_tables(linears, a)
    gathers = a.frames.get(gathered_section.OP)
    if gathers is not None and len(gathers):
        overlap = gathered_section.overlap(gathers)
        if len(overlap):
            yield gathered_section.SOURCE, _labelled(overlap, a)


def linear_accuracy_tables(frame: pd.DataFrame, a: Analysis) -> Iterator[tuple[str, pd.DataFrame]]:
    """What fast accumulation costs, and accuracy beside speed, where either was measured."""
    section = linear_accuracy_section
    both = section.beside_speed(frame, a.speedups[section.OP])
    for name, table in (
        (section.ACCUMULATION_SOURCE, section.accumulation(frame)),
        (section.SPEED_SOURCE, both),
    ):
        if len(table):
            yield name, _labelled(table, a)


def _labelled(frame: pd.DataFrame, a: Analysis, *, last: bool = False) -> pd.DataFrame:
    """The frame with `device` and `environment_id`, in front or, in tidy frames, at the end."""
    labels = {"device": a.device, "environment_id": a.environment_id}
    labelled = frame.assign(**labels)
    return labelled if last else labelled[[*labels, *frame.columns]]


def _page(
    chapters: Sequence[Chapter], glance: Sequence[Mapping[str, Any]], files: Mapping[str, str]
) -> str:
    """files: packed tables by name; those that a link of the page names are put into it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    table = make_table(
        pd.DataFrame(list(glance)), GLANCE, id="glance", caption="Devices at a glance"
    )
    return environment.get_template("report.html.j2").render(
        chapters=chapters,
        glance=table,
        files={name: text for name, text in files.items() if name in _linked(chapters)},
        style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
        script=(TEMPLATES / "tables.js").read_text(encoding="utf-8"),
    )


def _linked(chapters: Sequence[Chapter]) -> set[str]:
    blocks = [b for chapter in chapters for part in chapter.sections for b in part.blocks]
    return {block.source for block in blocks if isinstance(block, FigureBlock | Table)}
