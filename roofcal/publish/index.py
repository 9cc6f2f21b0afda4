"""index.json and index.html over all publications, made of their files alone."""

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

from roofcal.core.files import write_bytes
from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration, Environment
from roofcal.publish.manifest import NAME, read_manifest

_HEADER: Final = ("device", "environment", "driver", "torch", "commit", "files", "report")


def publications(published: Path) -> list[Path]:
    """Folders <device>/<environment_id> below `published`, sorted."""
    return sorted(path.parent for path in published.glob("*/*/environment.jsonl"))


def claimed_twice(published: Path) -> Iterator[str]:
    """One sentence per environment that several publications say they are of.

    Raises RecordsError for a damaged environment.jsonl.
    """
    claimed: dict[str, list[Path]] = {}
    for folder in publications(published):
        for environment in read_records(folder / "environment.jsonl", Environment):
            name = f"{environment.device}/{environment.environment_id}"
            claimed.setdefault(name, []).append(folder)
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
    rows = [_row(folder, published) for folder in publications(published)]
    document = {"schema_version": 1, "publications": rows}
    write_bytes(published / "index.json", (json.dumps(document, indent=1) + "\n").encode())
    write_bytes(published / "index.html", _page(rows).encode())


def _row(folder: Path, published: Path) -> dict[str, Any]:
    environment = read_records(folder / "environment.jsonl", Environment)[0]
    calibrated = folder / "calibration.jsonl"
    found = read_records(calibrated, Calibration) if calibrated.is_file() else []
    manifest = read_manifest(folder)
    return {
        "device": environment.device,
        "device_name": environment.device_name,
        "environment_id": environment.environment_id,
        "driver": environment.driver,
        "torch": environment.torch,
        "triton": environment.triton,
        "path": folder.relative_to(published).as_posix(),
        "ops": sorted(path.name.split(".")[0] for path in (folder / "plan").glob("*.jsonl*")),
        "probe_points": found[0].probe_points if found else None,
        "commit": manifest["commit"] if manifest else None,
        "files": len(manifest["files"]) if manifest else None,
        "manifest": f"{folder.relative_to(published).as_posix()}/{NAME}" if manifest else None,
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
