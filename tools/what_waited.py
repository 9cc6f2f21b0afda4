"""Print what the device waited for in every run below a results folder, by op.

`python -m tools.what_waited RESULTS` reads finished ops and the journals of those that were cut
off, so that it answers for a study that ran out of time, too.
"""

import sys
from pathlib import Path

import pandas as pd

from roofcal.core.jsonl import salvage_records
from roofcal.core.paths import run_folders
from roofcal.core.records import Measurement, Session
from roofcal.report.data.quality import waiting_rows


def sessions_of(journal: Path) -> tuple[list[Session], int]:
    """The sessions of a journal, each as it ended, and how many visits they made."""
    records, _ = salvage_records(journal)
    last = {record.session_id: record for record in records if isinstance(record, Session)}
    return list(last.values()), sum(isinstance(record, Measurement) for record in records)


def lines_of(results: Path) -> list[str]:
    """The table of each run: a line per op, in the order of measuring."""
    lines = []
    for run in run_folders(results):
        read = {path.stem: sessions_of(path) for path in run.folder.glob("journal/*.jsonl")}
        table = waiting_rows({op: sessions for op, (sessions, _) in read.items()})
        lines += [str(run.name), f"  {'op':22}{'visits':>7}{'wall s':>8}{'busy':>6}{'start':>7}"]
        lines[-1] += f"{'compile':>9}{'prepare':>9}{'idle before s':>15}"
        for row in table.to_dict("records"):
            shares = [row[f"{name}_fraction"] for name in ("busy", "starting", "compiling")]
            between = "" if pd.isna(row["between_s"]) else f"{row['between_s']:.0f}"
            lines.append(
                f"  {row['op']:22}{read[row['op']][1]:7d}{row['wall_s']:8.1f}{shares[0]:6.0%}"
                f"{shares[1]:7.0%}{shares[2]:9.0%}{row['preparing_fraction']:9.0%}{between:>15}"
            )
        busy_s = (table["wall_s"] * table["busy_fraction"]).sum() if len(table) else 0.0
        wall_s = table["wall_s"].sum() if len(table) else 0.0
        lines.append(f"  {'all':22}{'':7}{wall_s:8.1f}{busy_s / wall_s if wall_s else 0:6.0%}")
    return lines


if __name__ == "__main__":
    print(*lines_of(Path(sys.argv[1])), sep="\n")
