"""The report of one or more runs: a page of answers, one of details, and the tables as CSV."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from roofcal.claims import Entry
from roofcal.core.devices import load_devices
from roofcal.core.files import write_bytes
from roofcal.core.visits.intervals import MEANINGS
from roofcal.fitting.parallel import parallel_map
from roofcal.points.run import Run, load_run
from roofcal.report.chapter import Chapter
from roofcal.report.data.analysis import analyse
from roofcal.report.data.op_pages import glossary_ops
from roofcal.report.data.provenance import (
    ReportError,
    calibration_path,
    commands_anew,
    outdated_text,
)
from roofcal.report.data.table_files import as_csv
from roofcal.report.kit.blocks import Block, Table
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.templates import FOLDER, packed, packed_json, render
from roofcal.report.kit.vega import chart_svgs, page_charts
from roofcal.report.shape_box import shape_box_data
from roofcal.report.summary import device_line, device_table, headlines

DETAILS: Final = "details.html"
_SCRIPTS: Final = ("unpack.js", "tables.js", "drawers.js")
_SHAPE_BOX_SCRIPTS: Final = ("product_model.js", "shape_box.js")
_MOST_CARRIED: Final = 500_000  # characters of a packed table; larger ones stand beside the page


def write_report(
    runs: Sequence[tuple[Path, Path | None]],
    out: Path,
    devices_folder: Path,
    claims: Sequence[Entry] = (),
    figures: Path | None = None,
) -> list[str]:
    """Write the page to `out`, and details.html and tables/*.csv beside it.

    Equal records give equal bytes.

    GPUs come first, and of each device the newest environment. Returns the headlines of the first
    run that was measured here, or else of the first run; a line before them says what disturbed it.
    The first lines name what was left out because the constants of a run belong to another equation
    than this roofcal has, and the commands that make it again.

    Args:
        runs: (run folder, folder of its calibration and predictions; None: the run folder itself).
        out: file of the page.
        devices_folder: datasheets.
        claims: of the ledger, judged on every run.
        figures: folder for the figures of the runs that were measured here, or without any of all
            runs: SVG files <question>/<chapter>/<figure>.<op>.svg.

    Raises:
        ReportError: there is no run, or the calibration of a run is of another device.
        RecordsError, ConfigError: a file is bad; then no page was changed.
        OSError: a file cannot be written.
    """
    if not runs:
        raise ReportError("no run to report: give at least one run folder")
    specs = load_devices(devices_folder)
    loaded = in_page_order(load_run(*pair) for pair in runs)
    chapters: list[Chapter] = []
    lines: list[dict[str, Any]] = []
    shape_boxes: list[dict[str, Any]] = []
    answers: dict[str, list[str]] = {}
    tables: list[tuple[str, pd.DataFrame]] = []
    devices = [run.environment.device for run in loaded]
    for run in loaded:
        # the chapter has the id of the device, and of the environment where it has several
        device, name = run.environment.device, run.environment.environment_id
        several = devices.count(device) > 1
        anchor = f"{device}-{name[-8:]}-{run.origin}" if several else device
        own = [run for run in reversed(loaded) if run.environment.device == device]
        calibrations = {run.environment.environment_id: calibration_path(run) for run in own}
        analysis = analyse(
            run, specs.get(device), peers=loaded, calibrations=calibrations, claims=claims
        )
        box = None if analysis.is_earlier else shape_box_data(analysis, anchor)
        shape_boxes += [box] if box else []
        chapters.append(Chapter(analysis, anchor))
        lines.append(device_line(analysis))
        reasons = " ".join(chapters[-1].disturbances)
        note = f"note: too noisy to use, measure again: {reasons}"
        answers.setdefault(
            run.origin, [*([note] if reasons else []), *headlines(analysis, lines[-1])]
        )
        tables += chapters[-1].labelled_tables()
    files = _joined(tables)
    details = _second_page(chapters, device_table(lines), files)
    page = _first_page(chapters, shape_boxes)
    for name, text in files.items():
        write_bytes(out.parent / "tables" / name, text.encode())
    if figures is not None:
        # Drawing those of two published GPUs as well took 18 s of a report of 58 s.
        of_runs = zip(chapters, loaded, strict=True)
        here = [chapter for chapter, run in of_runs if run.origin == "measured"]
        for name, svg in figure_files(here or chapters).items():
            write_bytes(figures / name, svg.encode())
    write_bytes(out.with_name(DETAILS), details.encode())
    write_bytes(out, page.encode())
    return [*_outdated_lines(loaded), *(answers.get("measured") or answers["published"])]


def _outdated_lines(runs: Iterable[Run]) -> Iterator[str]:
    """What was left out of the page, and the commands that make it again."""
    for run in runs:
        if run.outdated:
            yield f"note: in {run.derived}, {outdated_text(run)}:"
            beside = (run.derived.parent / origin for origin in run.origins())
            also = [f"{folder}/calibration.jsonl" for folder in beside]
            yield from commands_anew(run, str(run.folder), str(run.derived), also)


def tables_of_run(run: Path, devices_folder: Path) -> dict[str, str]:
    """File name -> CSV text of every table beside the report of one run, without drawing it.

    Raises as write_report.
    """
    loaded = load_run(run)
    analysis = analyse(loaded, load_devices(devices_folder).get(loaded.environment.device))
    return _joined(Chapter(analysis, "").labelled_tables())


def figure_files(chapters: Sequence[Chapter]) -> dict[str, str]:
    """Path -> SVG of every figure; `_` in the name of a question stands for a space."""
    pictures = {
        f"{title.replace(' ', '_')}/{chapter.id}/{block.key}.{block.op}.svg": block
        for chapter in chapters
        for question in chapter.questions
        for title in [question.title.removesuffix("?")]
        for section in question.sections
        for block in section.blocks
        if isinstance(block, Picture)
    }
    drawn = chart_svgs([(picture, picture.alt) for picture in pictures.values()])
    return dict(zip(pictures, drawn, strict=True))


def _joined(tables: Iterable[tuple[str, pd.DataFrame]]) -> dict[str, str]:
    """File name -> all its rows as CSV, by name; a file without any row has its columns."""
    parts: dict[str, list[pd.DataFrame]] = {}
    for name, frame in tables:
        parts.setdefault(name, []).append(frame)
    filled = {name: [f for f in frames if len(f)] for name, frames in parts.items()}
    frames = [pd.concat(filled[name]) if filled[name] else parts[name][0] for name in sorted(parts)]
    return dict(zip(sorted(parts), parallel_map(as_csv, frames), strict=True))


def in_page_order(runs: Iterable[Run]) -> list[Run]:
    """The order of the chapters: GPUs before CPUs, then by device, then the newest versions first.

    A run stands before its publication. Of equal versions, the run measured last comes first.
    """

    def age(run: Run) -> tuple[Any, bool, str]:
        return run.age_key, run.origin == "measured", run.environment.environment_id

    newest_first = sorted(runs, key=age, reverse=True)
    return sorted(newest_first, key=lambda r: (r.environment.vendor == "cpu", r.environment.device))


def _first_page(chapters: Sequence[Chapter], shape_boxes: Sequence[Mapping[str, Any]]) -> str:
    """The page of answers. shape_boxes: of roofcal.report.shape_box, by device."""
    return render(
        "report.html.j2",
        chapters=chapters,
        shape_box=packed_json(shape_boxes) if shape_boxes else None,
        glossary_ops=glossary_ops(),
        interval_meanings=MEANINGS,
        records=DETAILS,
        **_page_parts(
            [f for c in chapters for q in c.questions for f in q.figures], _SHAPE_BOX_SCRIPTS
        ),
    )


def _second_page(chapters: Sequence[Chapter], devices: Table, tables: Mapping[str, str]) -> str:
    """The page of all sections. It carries the tables that its links name, but for large ones."""
    blocks = [block for chapter in chapters for block in chapter.blocks]
    linked = {block.source for block in blocks if isinstance(block, Picture | Table)}
    files = {name: packed(text) for name, text in tables.items() if name in linked}
    return render(
        "details.html.j2",
        chapters=chapters,
        devices=devices,
        files={name: text for name, text in files.items() if len(text) <= _MOST_CARRIED},
        records="",
        **_page_parts(blocks),
    )


def _page_parts(blocks: Sequence[Block], further_scripts: Sequence[str] = ()) -> dict[str, Any]:
    """Style sheet and scripts of a page with these blocks, and what its charts are drawn from."""
    figures = [block for block in blocks if isinstance(block, Picture)]
    library, data = page_charts((f.id, f.points, f.records, f) for f in figures)
    charts = ["charts.js"] if library else []
    return {
        "style": _template("style.css") + _template("charts.css"),
        "chart_library": library,
        "chart_data": data,
        "scripts": [_template(name) for name in (*_SCRIPTS, *further_scripts, *charts)],
    }


def _template(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
