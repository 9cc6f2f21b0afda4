"""The LaTeX compiles where there is a LaTeX, and is well formed where there is none."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from roofcal.export.latex import escaped, write
from tests.roofcal.export.subjects import h200, rounded

PAPER = r"""\documentclass{article}
\usepackage{booktabs}
\usepackage{longtable}
\begin{document}
\input{constants.tex}
\end{document}
"""


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_it_compiles_in_a_paper(tmp_path: Path) -> None:
    (tmp_path / "constants.tex").write_text(write(h200()), encoding="utf-8")
    (tmp_path / "paper.tex").write_text(PAPER, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 0


def test_every_constant_is_a_row_of_four_cells() -> None:
    text = write(rounded())
    body = [line for line in text.splitlines() if line.startswith(r"\texttt")]
    assert len(body) == len(h200().calibration.constants)
    assert all(len(re.findall(r"(?<!\\)&", line)) == 3 for line in body)
    assert all(line.endswith(r" \\") for line in body)
    assert r"\texttt{dram\_copy\_bytes\_per\_s} & 4.280 & 4.266--4.294 & TB/s \\" in body
    assert r"\texttt{launch\_eager\_s} & 15.01 & 14.96--15.05 & \textmu s \\" in body


def test_braces_and_environments_are_closed() -> None:
    text = re.sub(r"^%.*$|\\[{}]", "", write(h200()), flags=re.MULTILINE)
    assert text.count("{") == text.count("}")
    assert re.findall(r"\\(begin|end)\{(\w+)\}", text) == [
        ("begin", "longtable"), ("end", "longtable"),
    ]  # fmt: skip
    assert text.count(r"\toprule") == 2
    assert text.count(r"\bottomrule") == 1


def test_comments_say_where_it_comes_from() -> None:
    lines = write(h200()).splitlines()
    assert lines[:3] == [f"% {line}" for line in h200().provenance("latex")]
    assert "booktabs" in lines[3]


def test_text_is_printed_as_it_stands() -> None:
    assert escaped("a_b & 95% of {c}") == r"a\_b \& 95\% of \{c\}"
    assert escaped("\\~^") == r"\textbackslash{}\textasciitilde{}\textasciicircum{}"
