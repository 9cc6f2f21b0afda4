"""What a command imports: a heavy package costs 0.3 to 2 s. `make bench` times whole answers."""

import json
import subprocess
import sys
from typing import Final

from tests.paths import ROOT

_HEAVY: Final = (
    "jinja2",
    "matplotlib",
    "pandas",
    "scipy",
    "seaborn",
    "snakemake",
    "torch",
    "vl_convert",
)
_PROGRAM: Final = """
import json, sys
from roofcal.cli.main import main
heavy, arguments = map(json.loads, sys.argv[1:])
code = main(arguments)
print(json.dumps([code, sorted(set(heavy) & set(sys.modules))]))
"""


def heavy_packages_of(arguments: list[str]) -> set[str]:
    """The heavy packages that a new process imports to answer a command."""
    command = [sys.executable, "-c", _PROGRAM, json.dumps(_HEAVY), json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    code, heavy = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    return set(heavy)
