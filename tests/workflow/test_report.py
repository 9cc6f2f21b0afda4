"""`snakemake --report`: the answer, the page, and figures with caption, category and labels."""

import json
import re
import zipfile
from typing import Any

from tests.workflow.checkout import Checkout

FIGURE = "results/report/figures/How_was_this_measured/cpu-test/session.gemm.svg"


def test_the_built_in_report_carries_the_page_and_the_figures(finished: Checkout) -> None:
    answer = "For 4,096 tokens: Use fp8_axiswise: 1.88x bf16 (a `toss-up`, casts *included*)."
    (finished.folder / "results/report/report.log").write_text(answer)

    finished.run("--report", "report.zip")

    with zipfile.ZipFile(finished.folder / "report.zip") as packed:
        names = packed.namelist()
        (index,) = (name for name in names if name.endswith("/report.html") and "/raw/" not in name)
        text = packed.read(index).decode()
    assert any(name.endswith("/cpu-test/session.gemm.svg") for name in names)
    (opens_on,) = re.findall("var workflow_desc = (.*);", text)
    assert answer in json.loads(opens_on)
    assert "Answers" in value_of("categories", text)
    assert value_of("categories", text)["How was this measured?"] == {"cpu-test": [FIGURE]}
    entry = value_of("results", text)[FIGURE]
    assert entry["labels"] == {"figure": "The device while it was measured (gemm)"}
    assert "the time of each sentinel" in entry["caption"]


def test_the_log_of_the_report_keeps_answers_and_warnings(finished: Checkout) -> None:
    signature = "def report(a: Options) -> None:\n"
    writes = (
        "    import os\n"
        "    for descriptor in (1, 2, 1):\n"
        "        os.write(descriptor, b'written to %d\\n' % descriptor)\n"
        "        time.sleep(0.2)  # tee copies what stands in its pipe meanwhile\n"
    )
    finished.replace("roofcal/cli/main.py", signature, signature + writes)
    log = finished.folder / "results/report/report.log"
    log.write_text("of a run before\n")

    finished.run("--allowed-rules", "report", "--force", "report")

    assert sorted(log.read_text().splitlines()) == ["written to 1", "written to 1", "written to 2"]


def value_of(name: str, page: str) -> Any:
    """What a variable of the page's script holds."""
    start = page.rindex(f"var {name} = {{") + len(f"var {name} = ")
    return json.JSONDecoder().raw_decode(page, start)[0]
