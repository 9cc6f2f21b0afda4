"""tools/install.py with a stand-in for Python: what uv and pip are asked; nothing is downloaded."""

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tests.paths import ROOT
from tools.install import UV, pip_settings, uv_arguments, uv_environment

LISTING = """\
:env:.cert='/etc/own.crt'
:env:.find-links='/opt/wheels /opt/more'
global.extra-index-url='file:///one/simple file:///two/simple'
global.find-links='/elsewhere'
global.index-url='https://mirror/simple'
global.timeout='60'
install.index-url='https://better/simple'
install.no-index='false'
"""
STAND_IN = """#!/bin/bash
echo "$*" >>calls.log
case "$*" in
    *"config list") echo "${{FAKE_LISTING:-global.find-links='/opt/wheels'}}" ;;
    *"-r {uv}") exit "${{FAKE_GET:-0}}" ;;
    "-m uv "*) echo "uv: no such version" >&2; exit "${{FAKE_UV:-0}}" ;;
    "-m pip "*) exit "${{FAKE_PIP:-0}}" ;;
esac
"""


def test_a_variable_is_stronger_than_a_section_install_and_that_than_global() -> None:
    settings = pip_settings(LISTING)
    assert settings["find-links"] == "/opt/wheels /opt/more"
    assert settings["index-url"] == "https://better/simple"
    assert settings["extra-index-url"] == "file:///one/simple file:///two/simple"


def test_uv_asks_where_pip_would() -> None:
    settings = pip_settings(LISTING)
    asked = uv_arguments(settings)
    pairs = list(pairwise(asked))
    for pair in (
        ("--default-index", "https://better/simple"),
        ("--index", "file:///one/simple"),
        ("--index", "file:///two/simple"),
        ("--find-links", "/opt/wheels"),
        ("--find-links", "/opt/more"),
    ):
        assert pair in pairs
    assert "--no-index" not in asked
    assert "--no-index" in uv_arguments(settings | {"no-index": "true"})
    assert uv_environment(settings) == {"SSL_CERT_FILE": "/etc/own.crt"}
    assert uv_environment({"proxy": "http://p:1"})["HTTPS_PROXY"] == "http://p:1"


def run_install(
    folder: Path, arguments: Sequence[str], **variables: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """tools/install.py with the stand-in as its Python; the end of it, and the calls it made."""
    stand_in = folder / "python"
    stand_in.write_text(STAND_IN.format(uv=UV))
    stand_in.chmod(0o755)
    code = "import runpy, sys; sys.executable, *sys.argv = sys.argv[1:]; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(stand_in), str(ROOT / "tools/install.py"), *arguments],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return done, (folder / "calls.log").read_text().splitlines()


def test_uv_installs_from_pips_sources(tmp_path: Path) -> None:
    done, calls = run_install(tmp_path, ["--no-deps", "-r", "some.txt"])
    assert (done.returncode, done.stderr) == (0, "")
    *_, last = calls
    assert last.startswith("-m uv pip install ")
    assert "--find-links /opt/wheels" in last
    assert last.endswith(" --no-deps -r some.txt")


@pytest.mark.parametrize(
    ("variables", "why", "code"),
    [
        ({"FAKE_GET": "1"}, "uv.txt could not be installed", 0),
        ({"FAKE_UV": "1"}, "no such version", 3),
        ({"FAKE_LISTING": "install.only-binary=':all:'"}, "uv is not told of pip's only-binary", 0),
    ],
)
def test_pip_installs_where_uv_cannot_and_a_sentence_says_so(
    tmp_path: Path, variables: dict[str, str], why: str, code: int
) -> None:
    done, calls = run_install(tmp_path, ["-r", "some.txt"], FAKE_PIP=str(code), **variables)
    assert done.returncode == code
    assert calls[-1].startswith("-m pip ")
    assert calls[-1].endswith(" install -r some.txt")
    assert "note: pip installs -r some.txt, in minutes, because" in done.stderr
    assert why in done.stderr
