"""Take the pictures of the report in README.md and docs/, with Chromium, from what is published.

Run: python -m tools.take_screenshots [REPORT.html]; without a report it writes that of the newest
publication of the H200 first. docs/pictures/ then has one PNG per line of PICTURES.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.method_numbers import tables_of_publication

ROOT: Final = Path(__file__).resolve().parent.parent

FOLDER: Final = ROOT / "docs" / "pictures"
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
_SETTLE_MS: Final = 8000  # virtual time: figures are drawn once they come into view


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One picture: what it shows, and the part of the page that its window begins with.

    fragment   what follows `#` in the address of the page
    width, height  of the window, in pixels
    """

    name: str
    fragment: str
    width: int = 1200
    height: int = 750


PICTURES: Final = (
    Picture(name="summary", fragment="summary"),
    Picture(name="recipe", fragment="nvidia-h200-recipe"),
    Picture(name="roofs", fragment="nvidia-h200-roofs"),
    Picture(name="trust", fragment="nvidia-h200-trust"),
)
# Chromium paints nothing above the window of a page that it opens at a fragment. So what stands
# before the element is hidden instead, and the page is taken from its top.
_BEGIN_WITH: Final = """
<script>
  for (let part = document.getElementById("%s"); part !== document.body; part = part.parentElement)
    for (let before = part.previousElementSibling; before; before = before.previousElementSibling)
      if (!before.querySelector("#contents") && before.id !== "contents")
        before.style.display = "none";
</script>
"""


def find_browser() -> str:
    """The Chromium on the PATH; raises FileNotFoundError that names what was looked for."""
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    raise FileNotFoundError(f"no Chromium on the PATH (looked for {', '.join(BROWSERS)})")


def take(browser: str, page: Path, picture: Picture, file: Path) -> None:
    """Write one picture of a page; raises ValueError where the page has no such fragment."""
    text = page.read_text(encoding="utf-8")
    if f'id="{picture.fragment}"' not in text:
        raise ValueError(f"{page}: no element with the id {picture.fragment}; see PICTURES")
    file.parent.mkdir(parents=True, exist_ok=True)
    copy = page.with_name(f"{page.stem}_{picture.name}.html")
    copy.write_text(text + _BEGIN_WITH % picture.fragment, encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", f"--screenshot={file}"]
    command += [f"--window-size={picture.width},{picture.height}"]
    command += [f"--virtual-time-budget={_SETTLE_MS}", copy.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    copy.unlink()


def write_report(file: Path) -> None:
    """Write the report of the newest publication of the H200."""
    run = tables_of_publication().parent
    command = [sys.executable, "-m", "roofcal", "report", f"--run={run}", f"--out={file}"]
    subprocess.run(command, check=True, cwd=ROOT)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        report = Path(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/report.html").resolve()
        if not report.exists():
            write_report(report)
        for entry in PICTURES:
            take(find_browser(), report, entry, FOLDER / f"{entry.name}.png")
            print(FOLDER / f"{entry.name}.png")
