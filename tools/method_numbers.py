"""Write the measured numbers of docs/method.md, from the tables of the published H200.

A number in the page stands between `<!-- name -->` and `<!-- / -->`; `measured_numbers` has it.
Run: python tools/method_numbers.py; a test fails when the page and the tables disagree.
"""

import re
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "method.md"
PUBLICATIONS = ROOT / "reports" / "published" / "nvidia-h200"
_NUMBER = re.compile(r"(<!-- (\w+) -->).*?(<!-- / -->)", re.DOTALL)


def tables_of_publication() -> Path:
    """The tables of the publication with the newest driver, torch and Triton."""
    sys.path.insert(0, str(ROOT))
    from roofcal.core.environments import version_key  # noqa: PLC0415

    newest = max(PUBLICATIONS.iterdir(), key=lambda folder: version_key(folder.name))
    return newest / "tables"


def measured_numbers(tables: Path) -> dict[str, str]:
    """Name -> text of every number that the page may show.

    Ratios are those of the method panel: the time by a method over that by graph replay of cold
    buffers with normal data.

    Args:
        tables: folder with the CSV tables of a publication.
    """
    panel = pd.read_csv(tables / "method_panel.csv")
    constants = pd.read_csv(tables / "constants.csv").set_index("name")["value"]
    slowdown = settling_slowdown(pd.read_csv(tables / "nvidia-h200_gemm.csv"))
    ratio_of_method = panel.groupby("method")["ratio"]
    return {
        "hot": _range_text(panel.loc[panel["cache"] == "hot", "ratio"]),
        "zeros": _range_text(panel.loc[panel["distribution"] == "zeros", "ratio"]),
        "wall": f"{ratio_of_method.max()['wall']:.1f}",
        "flush": f"{ratio_of_method.max()['events_flush']:.2f}",
        "eager": f"{constants['launch_eager_s'] * 1e6:.1f} us",
        "settling_median": f"{100 * slowdown.median():.1f} %",
        "settling_95": f"{100 * slowdown.quantile(0.95):.1f} %",
    }


def settling_slowdown(gemm: pd.DataFrame) -> "pd.Series[float]":
    """Settled time over that of the first turn, less 1, of products of 100 us and more."""
    is_first_replay = (gemm["method"] == "graph") & (gemm["repeat"] == 0)
    rows = gemm[is_first_replay & (gemm["status"] == "ok") & (gemm["median_s"] >= 1e-4)]
    slowdown: pd.Series[float] = rows["median_s"] / rows["burst_median_s"] - 1
    return slowdown


def _range_text(ratios: "pd.Series[float]") -> str:
    return f"{ratios.min():.2f} to {ratios.max():.2f}"


def with_numbers(page: str, numbers: dict[str, str]) -> str:
    """The page with its marked numbers; raises KeyError for a mark that `numbers` lacks."""
    return _NUMBER.sub(lambda mark: f"{mark[1]}{numbers[mark[2]]}{mark[3]}", page)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_numbers(text, measured_numbers(tables_of_publication())), encoding="utf-8")
    print(PAGE)
