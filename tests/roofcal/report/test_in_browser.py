"""The page in a real browser: axe-core finds nothing serious, the console stays empty, nothing is
requested from anywhere, and a click on a table's name saves that table.

Chromium runs without a driver: a copy of the page gets a script that looks at it and then puts what
it saw in the place of the page, which `--dump-dom` prints.
"""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

CHROMIUM: Final = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")

WATCH = """
<meta http-equiv="Content-Security-Policy" content="default-src 'none';
 style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<script>
  const seen = { errors: [], requests: [], saved: null };
  addEventListener("error", (event) => seen.errors.push(event.message));
  addEventListener("unhandledrejection", (event) => seen.errors.push(String(event.reason)));
  addEventListener("securitypolicyviolation", (event) => seen.requests.push(event.blockedURI));
  const note = (...said) => seen.errors.push(said.join(" "));
  Object.assign(console, { error: note, warn: note });
</script>
"""
LOOK = """
<script>%s</script>
<script>
  const rules = { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] };
  const saving = new Promise((done) => {
    URL.createObjectURL = (blob) => { blob.text().then(done); return "#"; };
  });
  HTMLAnchorElement.prototype.click = function () { seen.name = this.download; };
  addEventListener("load", async () => {
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
    const found = await axe.run(document, { ...rules, resultTypes: ["violations"] });
    document.querySelector("a.data").dispatchEvent(new MouseEvent("click", { cancelable: true }));
    seen.saved = await saving;
    seen.width = document.documentElement.scrollWidth - innerWidth;
    seen.requests.push(...performance.getEntriesByType("resource").map((entry) => entry.name));
    seen.violations = found.violations.map((rule) => ({
      id: rule.id, impact: rule.impact, count: rule.nodes.length,
      first: rule.nodes.slice(0, 3).map((one) => one.html.slice(0, 200) + one.failureSummary) }));
    const out = document.createElement("pre");
    out.id = "seen";
    out.textContent = JSON.stringify(seen);
    document.body.replaceChildren(out);
    document.head.replaceChildren();
  });
</script>
</body>
"""
VIEWS: Final = {
    "wide": ["--window-size=1300,900"],
    "narrow": ["--window-size=500,900"],  # the narrowest window that Chromium opens
    "dark": ["--window-size=1300,900", "--blink-settings=preferredColorScheme=0"],
}


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core, which a package of the dev extra carries."""
    try:
        import axe_core_python
    except ImportError:
        pytest.skip("axe-core-python is not installed: `make test` installs it")
    file = Path(str(axe_core_python.__file__)).with_name("axe.min.js")
    return file.read_text(encoding="utf-8")


def look_at(page: Path, axe: str, place: Path, view: str) -> dict[str, Any]:
    """What the script saw of a page in a window."""
    text = page.read_text(encoding="utf-8")
    assert text.count("<head>") == text.count("</body>") == 1
    watched = text.replace("<head>", f"<head>{WATCH}").replace("</body>", LOOK.replace("%s", axe))
    copy = place / f"{view}.html"
    copy.write_text(watched, encoding="utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000"]
    profile = f"--user-data-dir={place / 'profile'}"
    command = [str(CHROMIUM), *flags, profile, *VIEWS[view], "--dump-dom", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    report = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert report is not None, f"{done.stdout[:500]}\n{done.stderr[-2000:]}"
    seen: dict[str, Any] = json.loads(unescape(report.group(1)))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_the_page_is_usable_and_fetches_nothing(
    report: Path, axe: str, tmp_path: Path, view: str
) -> None:
    seen = look_at(report, axe, tmp_path, view)
    assert seen["errors"] == []
    assert seen["requests"] == []
    assert seen["width"] <= 0, "the page is wider than the window"
    assert seen["saved"] == (report.parent / "tables" / seen["name"]).read_text(encoding="utf-8")
    assert [v for v in seen["violations"] if v["impact"] in ("serious", "critical")] == []


def test_what_the_check_would_find_it_finds(axe: str, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<!doctype html><html lang="en"><head><title>x</title></head><body><main><h1>x</h1>'
        '<p style="color:#bbb;background:#fff">pale</p><img src="https://example.invalid/x.png">'
        '<a class="data" href="#" onclick="window.URL.createObjectURL(new Blob([1]))">x</a>'
        '<script>console.error("said")</script></main></body></html>'
    )
    seen = look_at(page, axe, tmp_path, "wide")
    assert {"color-contrast", "image-alt"} <= {violation["id"] for violation in seen["violations"]}
    assert seen["errors"] == ["said"]
    assert set(seen["requests"]) == {"https://example.invalid/x.png"}
