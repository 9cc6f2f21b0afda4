"""One number per fact: README, reports, pages of the site and tables say the same of a GPU."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pandas as pd
import pytest

from roofcal import api
from tests.paths import ROOT

PUBLISHED: Final = ROOT / "reports/published"
# Device -> its name in README and on the first page of the site.
GPUS: Final = {
    "nvidia-h100-sxm": ("NVIDIA H100", "NVIDIA H100 80GB HBM3"),
    "nvidia-h200": ("NVIDIA H200", "NVIDIA H200"),
}
FACTS: Final = (
    "settled bf16, TFLOP/s",
    "settled fp8, TFLOP/s",
    "memory copies, TB/s",
    "empty kernel, us",
    "error of predicted products, %",
    "products that the error is of",
)
NUMBER: Final = r"([\d.,]+)"


def text_of(page: Path) -> str:
    """What a page shows, its tags as spaces."""
    content = re.sub(r"<(script|style)\b.*?</\1>", " ", page.read_text("utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", content)).split())


def found(pattern: str, text: str) -> list[str]:
    match = re.search(pattern, text)
    assert match is not None, f"nothing is like {pattern}"
    return [number.replace(",", "") for number in match.groups()]


def facts_of_tables(device: str) -> dict[str, float]:
    (tables,) = (PUBLISHED / device).glob("*/tables")
    errors = pd.read_csv(tables / "error_by_regime.csv")
    every = {"op": "gemm", "model": "calibrated", "regime": "all", "recipe": "all"}
    for column, value in (every | {"provider": "cublaslt"}).items():
        errors = errors[errors[column] == value]
    (error,) = errors.to_dict("records")
    constants = pd.read_csv(tables / "constants.csv").set_index("name")["value"]
    rates = pd.read_csv(tables / "claims.csv").set_index("claim")["ours"]
    values = (
        rates["mamf-finder-bf16-most"],
        rates["mamf-finder-fp8-most"],
        constants["dram_copy_bytes_per_s"] / 1e12,
        constants["launch_graph_s"] * 1e6,
        100 * error["mape"],
        error["count"],
    )
    return dict(zip(FACTS, map(float, values), strict=True))


def shown(device: str) -> Iterator[tuple[str, str, str]]:
    """(page, fact, number) of every headline figure of a GPU."""
    (report,) = (PUBLISHED / device).glob("*/report.html")
    readme, site = (ROOT / "README.md").read_text("utf-8"), text_of(PUBLISHED / "index.html")
    of_device = text_of(PUBLISHED / f"devices/{device}.html")
    short, name = GPUS[device]
    peaks = readme.split(f"| {short} |")[1].split("\n\n")[0]
    bf16, fp8, copy, launch, error, count = FACTS
    for fact, row in ((bf16, "bf16"), (fp8, "fp8_tensorwise"), (copy, "memory copy")):
        (number,) = found(rf"\| {row}, \S+ \| \S+ \| +\S*? *\| {NUMBER}", peaks)
        yield "README.md", fact, number
    yield "README.md", launch, found(rf"us \| +\| +\| {NUMBER}", peaks)[0]
    place = list(GPUS).index(device)
    errors = found(rf"<!-- error_calibrated -->{NUMBER} % and {NUMBER} %", readme)
    counts = found(rf"<!-- products -->{NUMBER} on .*? and {NUMBER} on ", readme)
    yield from (("README.md", error, errors[place]), ("README.md", count, counts[place]))

    first = text_of(report)
    for fact, pattern in (
        (bf16, rf"fastest bf16 product, settled {NUMBER} TFLOP/s"),
        (copy, rf"memory copies {NUMBER} TB/s"),
        (error, rf"mean error of predicted times {NUMBER} %"),
        (count, rf"mean error of predicted times \S+ % {NUMBER} products by cublaslt"),
    ):
        yield "report.html", fact, found(pattern, first)[0]

    share = rf"{NUMBER} \d+ %"
    row = rf"{name} driver \S+ torch \S+ \S+ {share} \S+ {share} \S+ {share} {NUMBER} {NUMBER} %"
    yield from (("index.html", *one) for one in zip(FACTS, found(row, site), strict=False))
    for fact, pattern in (
        (bf16, rf"Fastest bf16 product .*? {NUMBER} TFLOP/s"),
        (fp8, rf"Fastest fp8_tensorwise product .*? {NUMBER} TFLOP/s"),
        (copy, rf"Memory copies \S+ {NUMBER} TB/s"),
    ):
        yield f"{device}.html", fact, found(pattern, of_device)[0]


@pytest.mark.parametrize("device", GPUS)
def test_every_page_says_the_same_of_a_gpu_as_its_tables(device: str) -> None:
    (report,) = (PUBLISHED / device).glob("*/report.html")
    assert report.stat().st_size <= 1_000_000  # bytes, of a page that is opened from a mail too
    truth, said = facts_of_tables(device), list(shown(device))
    assert len(said) == 6 + 4 + 5 + 3
    for page, fact, number in said:
        decimals = len(number.partition(".")[2])
        assert f"{truth[fact]:.{decimals}f}" == number, f"{page}: {fact}"


@pytest.mark.usefixtures("published_alone")
@pytest.mark.parametrize("device", GPUS)
def test_the_report_decides_as_advise_does_and_readme_shows_it(device: str) -> None:
    (report,) = (PUBLISHED / device).glob("*/report.html")
    verdict = r"Use (\w+): ([\d.]+)x bf16, casts included"
    sizes = rf"{NUMBER} tokens and a weight of {NUMBER} . {NUMBER} "
    m, n, k = map(int, found(sizes, text_of(report)))
    decision = api.advise(device, m=m, n=n, k=k).decision
    wanted = [decision.recipe, f"{decision.speedup_over_bf16:.2f}"]
    assert found(verdict, text_of(report)) == wanted
    readme = (ROOT / "README.md").read_text("utf-8")
    if f"$ roofcal advise {m}x{n}x{k} --device {device.removeprefix('nvidia-')}\n" in readme:
        assert found(verdict, readme) == wanted
