"""Answers as whole processes (bars: `advise` and `llm` 1 s), `import roofcal`, and first paints.

Needs a publication of nvidia-h200. Run: make bench.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, browser

ROOT = Path(__file__).resolve().parents[1]
SIZES = ("--m", "4096", "--n", "28672", "--k", "8192")
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
MODULE = ("-m", "roofcal")


@pytest.mark.bench
@pytest.mark.parametrize(
    "program",
    [
        ("-c", "import roofcal"),
        (*MODULE, "advise", "--device", "nvidia-h200", *SIZES),
        (*MODULE, "llm", "--model", "llama3-8b", "--device", "nvidia-h200"),
        (*MODULE, "llm", "--model", "llama3-8b", "--device", "nvidia-b200", "--by", "datasheet"),
    ],
    ids=" ".join,
)
def test_an_answer(program: tuple[str, ...]) -> None:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, *program], cwd=ROOT, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    print(f"\n{' '.join(program)}: {min(times):.2f} to {max(times):.2f} s")


@pytest.mark.bench
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")
def test_first_paint_of_the_published_site() -> None:
    """Bar: 1 s; the pages of a site paint before their scripts have read any record."""
    with browser() as chromium:
        for page in sorted((ROOT / "reports/published").glob("*.html")):
            chromium.open(page)
            chromium.wait_for(PAINT)
            print(f"\n{page.name}: first paint after {chromium.run(PAINT):.0f} ms")
