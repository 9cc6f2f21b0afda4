"""Where a checkout keeps its files, and where a study puts its results.

CHECKOUT is absolute. The other paths are relative to the current folder, because a study runs in
its checkout and prints paths that a person can open from there.
"""

from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]

CONFIG: Final = Path("config")
DEVICES: Final = CONFIG / "devices"
CLAIMS: Final = CONFIG / "claims"
PUBLISHED: Final = Path("reports/published")
RESULTS: Final = Path("results")
