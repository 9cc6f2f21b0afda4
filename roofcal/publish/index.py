"""index.json and index.html over all publications, made of their files alone."""

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

from roofcal.core.files import write_bytes
from roofcal.core.jsonl import read_records, read_single_record
from roofcal.core.paths import RunFolder, run_folders
from roofcal.core.records import Calibration, Environment
from roofcal.publish.manifest import NAME, read_manifest

_HEADER: Final = ("device", "environment", "driver", "torch", "commit", "files", "report")


def claimed_twice(published: Path) -> Iterator[str]:
    """One sentence per environment that several publications say they are of.

    Raises RecordsError for a damaged environment.jsonl.
    """
    claimed: dict[str, list[Path]] = {}
    for run in run_folders(published):
        for environment in read_records(run.environment_file, Environment):
            name = f"{environment.device}/{environment.environment_id}"
            claimed.setdefault(name, []).append(run.folder)
    for name, folders in claimed.items():
        if len(folders) > 1:
            yield (
                f"{' and '.join(map(str, folders))} are both of {name}: keep the one that "
                "`python -m roofcal verify` says holds, and remove the other"
            )


def write_index(published: Path) -> None:
    """Write index.json and index.html of the folder of all publications.

    Equal publications give equal bytes. Raises RecordsError, ManifestError for a damaged one.
    """
    rows = [_row(run) for run in run_folders(published)]
    document = {"schema_version": 1, "publications": rows}
    write_bytes(published / "index.json", (json.dumps(document, indent=1) + "\n").encode())
    write_bytes(published / "index.html", _page(rows).encode())


def _row(run: RunFolder) -> dict[str, Any]:
    """What index.json says of a publication."""
    environment = read_single_record(run.environment_file, Environment)
    calibration = None
    if run.calibration_file.is_file():
        calibration = read_single_record(run.calibration_file, Calibration)
    manifest = read_manifest(run.folder)
    return {
        "device": environment.device,
        "device_name": environment.device_name,
        "environment_id": environment.environment_id,
        "driver": environment.driver,
        "torch": environment.torch,
        "triton": environment.triton,
        "path": run.name,
        "ops": run.planned_ops(),
        "probe_points": calibration.probe_points if calibration else None,
        "commit": manifest["commit"] if manifest else None,
        "files": len(manifest["files"]) if manifest else None,
        "manifest": f"{run.name}/{NAME}" if manifest else None,
    }


def _page(rows: list[dict[str, Any]]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in _HEADER)
    body = "\n".join(f"<tr>{''.join(_cells(row))}</tr>" for row in rows)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>roofcal: published runs</title>
<style>body {{ font-family: sans-serif; margin: 2rem }}
td, th {{ padding: .3rem .8rem; text-align: left }}</style>
</head>
<body>
<main>
<h1>Published runs</h1>
<p>Records, calibration, tables and report of each. <code>python -m roofcal verify</code> checks
them.</p>
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</main>
</body>
</html>
"""


def _cells(row: dict[str, Any]) -> list[str]:
    commit = (row["commit"] or "not noted")[:12]
    values = [row["device_name"], row["environment_id"], row["driver"], row["torch"], commit]
    cells = [f"<td>{escape(str(value or '-'))}</td>" for value in (*values, row["files"])]
    return [*cells, f'<td><a href="{escape(row["path"])}/report.html">report</a></td>']
