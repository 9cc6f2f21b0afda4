"""The tables and the plain data: exact, as people read them, and as their readers take them."""

import io
import json
import math
import re
import shutil
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from roofcal.core.records import Calibration
from roofcal.export import formats
from roofcal.export.subject import ExportError
from tests.roofcal.export.subjects import h200, rounded, with_constants
from tests.roofcal.made_up_records import exactly


def test_a_code_says_what_it_stands_for() -> None:
    constants = {"gemm.cublaslt.bf16.tile_family": exactly(3.0, "code")}
    calibration = Calibration(device="d", environment_id="e", constants=constants)
    (coded,) = formats.constant_rows(replace(h200(), calibration=calibration))
    assert coded["choice"] == "tile_128x128"


def test_every_family_of_a_published_device_is_named_by_the_table_of_its_own_op() -> None:
    """cast_family of fp8_rowwise_dim0 once said any_tile_split_k, a family of op gemm."""
    codes = [row for row in formats.constant_rows(h200()) if row["unit"] == "code"]
    assert {code["name"].split(".")[0] for code in codes} == {"gemm", "cast", "mixed_gemm"}
    for code in codes:
        chosen = str(code["evidence"]).partition("; not identified, left out: ")[0]
        assert chosen == f"cross-validation: {code['choice']}", code["name"]


def test_nothing_is_dropped_and_every_number_reads_back_to_the_last_bit() -> None:
    data, calibration = json.loads(formats.write_json(h200())), h200().calibration
    constants = {
        row["name"]: {k: v for k, v in row.items() if k not in ("name", "choice")}
        for row in data["constants"]
    }
    assert constants == {name: asdict(c) for name, c in calibration.constants.items()}
    assert data["probe_errors"] == calibration.probe_errors
    assert (data["device"], data["seed"]) == (calibration.device, calibration.seed)
    assert data["probe_points"] == calibration.probe_points
    assert data["environment"]["nccl"] == "2.28.9"
    assert data["made_by"] == h200().command("json")
    again = yaml.safe_load(formats.write_yaml(h200()))
    assert again == data | {"made_by": h200().command("yaml")}

    frame = pd.read_csv(io.StringIO(formats.write_csv(h200())))
    columns = ["name", "value", "ci95_low", "ci95_high", "unit", "choice", "evidence"]
    assert list(frame.columns) == ["device", "environment_id", *columns]
    assert set(frame["environment_id"]) == {calibration.environment_id}
    rows = pd.DataFrame(data["constants"])[columns]
    pd.testing.assert_frame_equal(frame[columns], rows, check_exact=True, check_dtype=False)


def test_an_infinite_number_is_refused_with_the_way_out() -> None:
    endless = replace(h200().calibration.constants["launch_graph_s"], ci95_high=math.inf)
    with pytest.raises(ExportError, match=r"infinite numbers.*export yaml or csv"):
        formats.write_json(with_constants(launch_graph_s=endless))


def cells(line: str) -> list[str]:
    assert line.startswith("|")
    assert line.endswith("|")
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_every_constant_is_a_row_of_five_cells() -> None:
    head, empty, *table = formats.write_markdown(rounded()).splitlines()
    assert h200().command("markdown") in head
    assert empty == ""
    names, rule, *body = [cells(line) for line in table]
    assert len(names) == len(rule) == 5
    assert all(len(row) == 5 for row in body)
    by_name = {row[0].strip("`"): row[1:] for row in body}
    assert set(by_name) == set(h200().calibration.constants)
    assert by_name["dram_copy_bytes_per_s"] == ["4.280", "4.266 to 4.294", "TB/s", "made up"]
    assert by_name["compute_units"][:3] == ["132", "", ""]
    assert by_name["gemm.cublaslt.bf16.tile_family"][0] == "any_tile_split_k"
    launch = replace(h200().calibration.constants["launch_graph_s"], evidence="a|b {'m': 1}")
    calibration = Calibration(device="d", environment_id="e", constants={"launch_graph_s": launch})
    last = formats.write_markdown(replace(h200(), calibration=calibration)).splitlines()[-1]
    assert cells(last)[-1] == r"a\|b m: 1", "a bar in a text makes no cell"


PAPER = r"""\documentclass{article}
\usepackage{array}
\usepackage{booktabs}
\usepackage{longtable}
\begin{document}
\input{constants.tex}
\end{document}
"""


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_the_latex_compiles_in_a_paper(tmp_path: Path) -> None:
    (tmp_path / "constants.tex").write_text(formats.write_latex(h200()), encoding="utf-8")
    (tmp_path / "paper.tex").write_text(PAPER, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 0


def test_every_constant_is_a_row_of_four_cells() -> None:
    text = formats.write_latex(rounded())
    body = [line for line in text.splitlines() if re.match(r"[a-z][\w.\\]+ & ", line)]
    rows = [line for line in body if not line.startswith("constant")]
    assert len(rows) == len(h200().calibration.constants)
    assert all(len(re.findall(r"(?<!\\)&", line)) == 3 for line in rows)
    assert all(line.endswith(r" \\") for line in rows)
    assert r"dram\_copy\_bytes\_per\_s & 4.280 & 4.266--4.294 & TB/s \\" in rows
    assert r"launch\_eager\_s & 15.01 & 14.96--15.05 & \textmu s \\" in rows
    comments = [line for line in text.splitlines() if line.startswith("%")]
    assert comments[:3] == [f"% {line}" for line in h200().provenance("latex")]
    assert "booktabs" in comments[3]


def test_names_are_printed_as_they_stand() -> None:
    constants = {"a_b%": h200().calibration.constants["launch_graph_s"]}
    calibration = Calibration(device="d_1", environment_id="50%", constants=constants)
    text = formats.write_latex(replace(h200(), calibration=calibration))
    nanoseconds = 1e9 * constants["a_b%"].value
    assert rf"a\_b\% & {nanoseconds:.1f}" in text
    assert r"\caption{Calibrated constants of d\_1 in 50\%.}" in text
