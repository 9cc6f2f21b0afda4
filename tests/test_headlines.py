"""One number per fact: README, both pages of a report, the site and `advise` agree on a card."""

import re
from html import unescape
from pathlib import Path
from typing import Final

import pytest

import roofcal
from tests.paths import ROOT

PUBLISHED: Final = ROOT / "reports" / "published"
CARDS: Final = {
    "nvidia-h100-sxm": "NVIDIA H100",
    "nvidia-h200": "NVIDIA H200",
}  # as README has them


def read(path: Path) -> str:
    return unescape(path.read_text(encoding="utf-8")).replace("\N{NO-BREAK SPACE}", " ")


def cells(row: str) -> list[str]:
    """The texts of the cells of an HTML row."""
    found = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
    return [re.sub(r"<[^>]*>", "", cell).strip() for cell in found]


@pytest.mark.parametrize("device", CARDS)
def test_pages_say_one_number_of_each_headline(device: str) -> None:
    (folder,) = (page.parent for page in PUBLISHED.glob(f"{device}/*/report.html"))
    report, readme = read(folder / "report.html"), read(ROOT / "README.md")

    assert (folder / "report.html").stat().st_size <= 1_000_000
    values = re.findall(r"<dd><b>([^<]*)</b>", report)[:3]
    headline = [value.partition(" ")[0] for value in values]  # bf16, memory copies, mean error

    table = readme.partition(f"| {CARDS[device]} |")[2]
    settled, copies = re.findall(r"\| (?:bf16|memory copy), T\S* \|(?:[^|]*\|){2} ([\d.]+)", table)[
        :2
    ]
    errors = re.findall(r"<!-- error_calibrated -->(\S+) % and (\S+) %", readme)[0]
    assert [settled, copies, errors[list(CARDS).index(device)]] == headline, "README"

    site = read(PUBLISHED / "index.html")
    own = cells(
        re.findall(rf'<tr><td><a href="devices/{device}.html">.*?</tr>', site, re.DOTALL)[0]
    )
    assert [own[3], own[9], own[12].partition(" ")[0]] == headline, "the site"

    grid = read(folder / "details.html").partition('id="devices"')[2]
    glance = cells(re.findall(r"<tbody><tr>.*?</tr>", grid, re.DOTALL)[0])
    assert [glance[4], glance[6], glance[8].partition(" ")[0]] == headline, "the second page"

    (decision,) = re.findall(r'class="decision">([^<]*)<', report)
    advised = roofcal.advise(device, m=4096, n=28672, k=8192).decision
    assert decision == next(iter(advised.sentences())), "`roofcal advise`"
