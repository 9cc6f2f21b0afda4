"""The Markdown is one table that a page can show."""

import re
from dataclasses import replace

from roofcal.core.records import Calibration
from roofcal.export.markdown import write
from tests.roofcal.export.subjects import h200, rounded


def cells(line: str) -> list[str]:
    assert line.startswith("| ")
    assert line.endswith(" |")
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_every_constant_is_a_row_of_five_cells() -> None:
    head, empty, *table = write(rounded()).splitlines()
    assert h200().command("markdown") in head
    assert empty == ""
    names, rule, *body = [cells(line) for line in table]
    assert len(names) == len(rule) == 5
    assert all(len(row) == 5 for row in body)
    found = {row[0].strip("`"): row[1:] for row in body}
    assert set(found) == set(h200().calibration.constants)
    assert found["dram_copy_bytes_per_s"] == [
        "4.280", "4.266 to 4.294", "TB/s", "made up",
    ]  # fmt: skip
    assert found["compute_units"][:3] == ["132", "", ""]


def test_a_bar_in_a_text_makes_no_cell() -> None:
    launch = replace(h200().calibration.constants["launch_graph_s"], evidence="a|b")
    calibration = Calibration(device="d", environment_id="e", constants={"launch_graph_s": launch})
    last = write(replace(h200(), calibration=calibration)).splitlines()[-1]
    assert cells(last)[-1] == r"a\|b"
