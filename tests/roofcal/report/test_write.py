"""Two pages: nothing from outside, the same bytes from the same records."""

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofcal.core.jsonl import RecordsError, write_records
from roofcal.points.run import load_run
from roofcal.report.data.analysis import analyse
from roofcal.report.data.op_pages import caption_files
from roofcal.report.data.provenance import ReportError
from roofcal.report.sections import llm
from roofcal.report.write import in_page_order, write_report
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.pages import literal_markdown, unpacked_text
from tests.roofcal.report.synthetic import (
    CPU,
    GPU,
    MadeUpRun,
    add_constants,
    add_predicted,
    cast,
    outdate,
    product,
)

VOID = {"meta", "link", "br", "input", "img", "hr", "path", "use", "rect"}
LOADING = {"src", "srcset", "poster", "data", "action", "formaction", "background"}


class Page(HTMLParser):
    """All tags with their attributes, and whether they nest."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.crossed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if self.open[-1:] == [tag]:
            self.open.pop()
        else:
            self.crossed.append(tag)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


PAGES = ("report.html", "details.html")


@pytest.fixture(scope="module", params=PAGES)
def text(report: Path, request: pytest.FixtureRequest) -> str:
    return unpacked_text(report.with_name(request.param))


@pytest.fixture(scope="module")
def details(report: Path) -> str:
    return report.with_name("details.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    parsed = Page()
    parsed.feed(text)
    return parsed


def test_tags_nest_and_no_markdown_is_left_between_them(page: Page, text: str) -> None:
    assert page.crossed == page.open == []
    assert literal_markdown(text) == []
    boxes = [tag for tag in page.of("div") if tag.get("class") == "box"]
    assert boxes
    assert all(b["tabindex"] == "0" and b["role"] == "region" and b["aria-label"] for b in boxes)


def test_nothing_is_loaded_from_outside(page: Page, text: str) -> None:
    for tag, attributes in page.tags:
        assert not LOADING & set(attributes), f"<{tag} {attributes}>"
        href = attributes.get("href")
        beside = attributes.get("class") == "data" and str(href).startswith("tables/")
        inside = href is None or href.startswith(("#", *PAGES)) or href == "data:,"
        assert inside or beside, f"<{tag} href={href}>"
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
    assert "@import" not in styles
    assert re.findall(r"url\((?!#)", text) == []
    script = "".join(re.findall(r"<script>(.*?)</script>", text, re.DOTALL))
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|https?:", script)


def test_links_lead_somewhere_and_ids_are_unique(page: Page, report: Path) -> None:
    ids = Counter(str(a["id"]) for _, a in page.tags if "id" in a)
    assert [name for name, count in ids.items() if count > 1] == []
    links = {str(a["href"]) for a in [*page.of("a"), *page.of("use")] if a.get("href")}
    assert {link[1:] for link in links if link.startswith("#")} - set(ids) == set()
    for link in (link for link in links if not link.startswith("#")):
        name, _, part = link.partition("#")
        assert (report.parent / name).is_file()
        assert not part or f'id="{part}"' in (report.parent / name).read_text()


def test_the_gpu_comes_first_and_names_are_escaped(text: str) -> None:
    assert text.index('id="nvidia-h200"') < text.index('id="cpu-made-up"')
    assert "Made-up &lt;CPU&gt; &amp; co" in text
    assert "<CPU>" not in text


def test_equal_records_give_equal_and_few_bytes_on_another_number_of_cores(
    folder: Path, report: Path, bare: Path, two_cores: None, tmp_path: Path
) -> None:
    again = tmp_path / "elsewhere" / "report.html"
    write_report([(folder, folder), (bare, None)], again, DEVICES)
    for name in PAGES:
        content = report.with_name(name).read_bytes()
        assert again.with_name(name).read_bytes() == content
        assert len(content) < 2.5e6


def measured_in(year: str, **environment: Any) -> MadeUpRun:
    made_up = MadeUpRun(replace(GPU, **environment))
    made_up.sessions["gemm"] = {"started_utc": f"{year}-11-21T04:00:00+00:00"}
    made_up.measure(product(64, 64, 64))
    return made_up


def test_what_was_measured_here_comes_before_what_others_published(tmp_path: Path) -> None:
    newer = measured_in("2027", torch="2.12.0").write(tmp_path / "published", ".jsonl.gz")
    folders = [newer, measured_in("2026").write(tmp_path), cpu_run().write(tmp_path)]
    runs = in_page_order(map(load_run, folders))
    devices = [(run.environment.device, run.origin) for run in runs]
    assert devices == [
        ("nvidia-h200", "measured"),
        (CPU.device, "measured"),
        ("nvidia-h200", "published"),
    ]
    assert not any(analyse(run, None, peers=runs).is_earlier for run in runs)


def test_gpus_come_first_and_of_each_the_newest_environment(tmp_path: Path) -> None:
    years = {"2.9.1": "2027", "2.12.0": "2025", "2.11.0": "2026"}  # older versions again, later
    made = [measured_in(year, torch=torch) for torch, year in years.items()]
    folders = [(made_up.write(tmp_path), None) for made_up in (cpu_run(), *made)]
    runs = in_page_order(load_run(folder) for folder, _ in folders)

    assert [run.environment.torch for run in runs] == ["2.12.0", "2.11.0", "2.9.1", "2.11.0+cpu"]
    newest, older, *_ = (analyse(run, None, peers=runs) for run in runs)
    assert (newest.environment_name, newest.is_earlier) == ("driver 580, torch 2.12", False)
    assert (older.environment_name, older.is_earlier) == ("driver 580, torch 2.11", True)

    out = tmp_path / "report" / "report.html"
    write_report(folders[1:], out, DEVICES)
    parsed = Page()
    parsed.feed((out.parent / "details.html").read_text(encoding="utf-8"))
    chapters = [a["id"] for a in parsed.of("section") if a.get("class") == "chapter"]
    assert len(set(chapters)) == 3, "environments of a device share a table and not an id"
    assert len(pd.read_csv(out.parent / "tables" / "nvidia-h200_gemm.csv")) == 3


def test_of_equal_versions_the_environment_that_was_measured_last_leads(tmp_path: Path) -> None:
    limits = {"2024": 700.0, "2026": 650.0, "2025": 600.0}
    made = [measured_in(year, power_limit_w=limit) for year, limit in limits.items()]
    runs = in_page_order(load_run(made_up.write(tmp_path)) for made_up in made)
    assert [run.environment.power_limit_w for run in runs] == [650.0, 600.0, 700.0]
    assert [analyse(run, None, peers=runs).is_earlier for run in runs] == [False, True, True]


def small_run() -> MadeUpRun:
    """Calibrated products and a cast, with their predictions."""
    made_up = MadeUpRun()
    for tokens in (16, 4096):
        for recipe in ("bf16", "fp8_axiswise"):
            add_predicted(made_up, product(tokens, 4096, 4096, recipe=recipe))
    made_up.measure(cast(1024, 8192, "fp8_rowwise_dim0"))
    made_up.predict(cast(1024, 8192, "fp8_rowwise_dim0"), "calibrated", 1e-5)
    add_constants(made_up)
    return made_up


def cpu_run() -> MadeUpRun:
    """One product on a processor."""
    made_up = MadeUpRun(CPU)
    made_up.measure(product(64, 64, 64, device=CPU.device))
    return made_up


def test_a_published_run_shows_where_its_records_are_and_its_figures_are_files_where_asked(
    tmp_path: Path,
) -> None:
    published = measured_in("2026").write(tmp_path / "somewhere", suffix=".jsonl.gz")
    svg = tmp_path / "svg"
    write_report([(published, None)], tmp_path / "report.html", DEVICES, figures=svg)

    text = (tmp_path / "details.html").read_text(encoding="utf-8")

    assert f"verify reports/published/nvidia-h200/{GPU.environment_id}" in text
    assert str(tmp_path) not in text
    files = sorted(path.relative_to(svg) for path in svg.rglob("*.svg"))
    assert len(files) == text.count("<figure")
    assert Path("How_close_to_its_roofs_does_it_run/nvidia-h200/roofline.gemm.svg") in files
    assert {path.stem.partition(".")[0] for path in files} <= set(caption_files())

    here = cpu_run().write(tmp_path / "results")
    both = tmp_path / "both" / "report.html"
    write_report([(here, None), (published, None)], both, DEVICES, figures=both.parent / "svg")
    chapters = {path.parent.name for path in (both.parent / "svg").rglob("*.svg")}
    assert chapters == {CPU.device}, "of what was measured here alone"
    assert 'id="nvidia-h200"' in both.read_text(encoding="utf-8")


def test_what_outdated_constants_made_is_named_with_the_commands_that_make_it_again(
    tmp_path: Path,
) -> None:
    measured, small = small_run().write(tmp_path / "results"), cpu_run()
    add_constants(small)
    frozen = small.write(tmp_path / "published", suffix=".jsonl.gz")
    for folder in (measured, frozen):
        outdate(folder, "gemm")
    (measured / "llm.csv").write_text(",".join([*llm.LABELS, *llm.NUMBERS]) + "\n")

    lines = write_report([(measured, None), (frozen, None)], tmp_path / "report.html", DEVICES)

    calibration = f"{measured}/calibration.jsonl"
    assert lines[0].startswith(
        f"note: in {measured}, the constants of gemm are of another equation"
    )
    assert "calibrated predictions of gemm; breakeven.csv; llm.csv." in lines[0]
    assert lines[1:5] == [
        f"roofcal calibrate --run {measured} --out {calibration}",
        *(
            f"roofcal predict --run {measured} --calibration {calibration} "
            f"--op {op} --out {measured}/predictions/{op}.jsonl"
            for op in ("gemm", "cast")
        ),
        f"roofcal llm --run {measured} --calibration {calibration} --out {measured}/llm.csv",
    ]
    assert lines[6] == f"roofcal publish --again {frozen}"
    details = (tmp_path / "details.html").read_text(encoding="utf-8")
    assert "In this run, the constants of gemm are of another equation" in details
    again = f"results/nvidia-h200/{GPU.environment_id}"
    assert f"--op gemm --out {again}/predictions/gemm.jsonl" in details
    assert f"publish --again reports/published/cpu-made-up/{CPU.environment_id}" in details


def test_without_a_run_there_is_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no run to report"):
        write_report([], tmp_path / "report.html", DEVICES)


def test_a_bad_run_leaves_the_old_page_alone(tmp_path: Path, folder: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")
    write_records(tmp_path / "bad" / "environment.jsonl", [])

    with pytest.raises(RecordsError):
        write_report([(folder, None), (tmp_path / "bad", None)], out, DEVICES)

    assert out.read_text() == "old"
    assert not (tmp_path / "tables").exists()
