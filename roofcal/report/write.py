"""The report of one or more runs: a page of answers, one of details, and the tables as CSV."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from roofcal.claims import Entry
from roofcal.core.devices import DeviceSpec, load_devices
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
from roofcal.report.kit.blocks import Table
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.templates import FOLDER, packed, packed_json, render
from roofcal.report.kit.vega import chart_svgs, page_charts
from roofcal.report.summary import DEVICE_COLUMNS, device_line, headlines

DETAILS: Final = "details.html"
_MOST_CARRIED: Final = 500_000  # characters of a packed table; larger ones stand beside the page


def write_report(
    runs: Sequence[tuple[Path, Path | None]],
    out: Path,
    devices_folder: Path,
    claims: Sequence[Entry] = (),
    figures: Path | None = None,
) -> list[str]:
    """Write the page to `out`, and details.html and tables/*.csv beside it.

    Equal records give equal bytes. Returns lines for a terminal: what was left out because the
    constants of a run belong to another equation than this roofcal has, with the commands that make
    it again; what disturbed the first run; its decision and its headlines.

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
    chapters = [_chapter(run, loaded, specs.get(run.environment.device), claims) for run in loaded]
    here = [chapter for chapter in chapters if chapter.origin == chapters[0].origin]
    lines = [device_line(chapter.analysis) for chapter in chapters]
    files = _joined(table for chapter in chapters for table in chapter.labelled_tables())
    devices = Table("devices", "Devices at a glance", pd.DataFrame(lines), DEVICE_COLUMNS)
    details = _second_page(chapters, devices, files)
    page = _first_page(chapters, here)
    for name, text in files.items():
        write_bytes(out.parent / "tables" / name, text.encode())
    if figures is not None:
        # Drawing those of two published GPUs as well took 18 s of a report of 58 s.
        for name, svg in figure_files(here).items():
            write_bytes(figures / name, svg.encode())
    write_bytes(out.with_name(DETAILS), details.encode())
    write_bytes(out, page.encode())
    reasons = " ".join(here[0].disturbances)
    return [
        *_outdated_lines(loaded),
        *([f"note: too noisy to use, measure again: {reasons}"] if reasons else []),
        here[0].decision_line,
        *headlines(here[0].analysis, lines[chapters.index(here[0])]),
    ]


def _chapter(
    run: Run, runs: Sequence[Run], spec: DeviceSpec | None, claims: Sequence[Entry]
) -> Chapter:
    """The chapter of one of the runs of a page.

    Its id is the device, with the environment where the page has several of the device.
    """
    environment = run.environment
    of_device = [one for one in runs if one.environment.device == environment.device]
    anchor = f"{environment.device}-{environment.environment_id[-8:]}-{run.origin}"
    calibrations = {  # of a run and its publication, those of the run
        one.environment.environment_id: calibration_path(one) for one in reversed(of_device)
    }
    analysis = analyse(run, spec, peers=runs, calibrations=calibrations, claims=claims)
    return Chapter(analysis, anchor if len(of_device) > 1 else environment.device)


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
        f"{question.title.removesuffix('?').replace(' ', '_')}/{chapter.id}/"
        f"{block.key}.{block.op}.svg": block
        for chapter in chapters
        for question in chapter.questions
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
    joined = {
        name: pd.concat([frame for frame in parts[name] if len(frame)] or parts[name][:1])
        for name in sorted(parts)
    }
    return dict(zip(joined, parallel_map(as_csv, list(joined.values())), strict=True))


def in_page_order(runs: Iterable[Run]) -> list[Run]:
    """The order of the chapters: runs of this machine first, so that its card opens the page.

    Then GPUs before CPUs, then by device, then the newest versions. Of equal versions, the run
    measured last comes first.
    """
    return sorted(
        sorted(runs, key=lambda r: (r.age_key, r.environment.environment_id), reverse=True),
        key=lambda r: (r.origin != "measured", r.environment.vendor == "cpu", r.environment.device),
    )


def _first_page(chapters: Sequence[Chapter], here: Sequence[Chapter]) -> str:
    """The page of answers; here: the chapters of what was measured here, or else of all.

    Figures of what others published are on the second page: three cards of them are more than a
    megabyte.
    """
    current = [chapter for chapter in chapters if not chapter.is_earlier]
    first = [chapter for chapter in current if chapter in here]
    shape_boxes = list(filter(None, (one.shape_box.data(one.id) for one in current)))
    figures = [
        figure
        for chapter in first
        for question in chapter.answered
        for of_section in question.figures
        for figure in of_section
    ]
    return render(
        "report.html.j2",
        chapters=chapters,
        current=current,
        first=first,
        shape_box=packed_json(shape_boxes) if shape_boxes else None,
        glossary_ops=glossary_ops(),
        interval_meanings=MEANINGS,
        records=DETAILS,
        **_page_parts(figures, ("product_model.js", "shape_box.js")),
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
        **_page_parts([figure for chapter in chapters for figure in chapter.figures]),
    )


def _page_parts(figures: Sequence[Picture], further_scripts: Sequence[str] = ()) -> dict[str, Any]:
    """Style sheet and scripts of a page with these figures, and what they are drawn from."""
    library, data = page_charts((f.id, f.points, f.records, f) for f in figures)
    scripts = ["unpack.js", "tables.js", "drawers.js", *further_scripts]
    texts = {
        name: (FOLDER / name).read_text(encoding="utf-8")
        for name in ("style.css", "charts.css", *scripts, "charts.js")
    }
    return {
        "style": texts["style.css"] + texts["charts.css"],
        "chart_library": library,
        "chart_data": data,
        "scripts": [texts[name] for name in (*scripts, *(["charts.js"] if library else []))],
    }
