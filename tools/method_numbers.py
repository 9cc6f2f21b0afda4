"""Write the measured numbers of README.md and docs/, from the tables of the published H200.

A number in a page stands between `<!-- name -->` and `<!-- / -->`; `measured_numbers` has it.
Run: python tools/method_numbers.py; a test fails when a page and the tables disagree.
"""

import re
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "method.md")
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
    gemm = pd.read_csv(tables / "nvidia-h200_gemm.csv")
    slowdown = settling_slowdown(gemm)
    products = library_products(tables)
    ratio_of_method = panel.groupby("method")["ratio"]
    return {
        "hot": _range_text(panel.loc[panel["cache"] == "hot", "ratio"]),
        "zeros": _range_text(panel.loc[panel["distribution"] == "zeros", "ratio"]),
        "wall": f"{ratio_of_method.max()['wall']:.1f}",
        "flush": f"{ratio_of_method.max()['events_flush']:.2f}",
        "eager": f"{constants['launch_eager_s'] * 1e6:.1f} us",
        "settling_median": f"{100 * slowdown.median():.1f} %",
        "settling_95": f"{100 * slowdown.quantile(0.95):.1f} %",
        "products": str(len(products)),
        "error_datasheet": mean_error(products, "datasheet_s"),
        "error_torchao": mean_error(products, "torchao_s"),
        "error_calibrated": mean_error(products, "predicted_s"),
        "h200": peaks_table(tables),
        **sentinel_numbers(gemm),
    }


def library_products(tables: Path) -> pd.DataFrame:
    """Study points of the library's products that datasheet, torchao and roofcal all predict."""
    gemm = pd.read_csv(tables / "nvidia-h200_gemm.csv")
    plain = {"method": "graph", "cache": "cold", "distribution": "normal", "repeat": 0}
    for column, value in ({"provider": "cublaslt", "status": "ok"} | plain).items():
        gemm = gemm[gemm[column] == value]
    return gemm.dropna(subset=["datasheet_s", "torchao_s", "predicted_s"])


def mean_error(products: pd.DataFrame, model: str) -> str:
    """Mean of |predicted / measured - 1| of a column of predicted seconds, as text."""
    return f"{100 * (products[model] / products['median_s'] - 1).abs().mean():.1f} %"


def peaks_table(tables: Path) -> str:
    """A Markdown table of the H200: datasheet, first turn, settled rate and its share."""
    constants = pd.read_csv(tables / "constants.csv").set_index("name")
    probes = pd.read_csv(tables / "nvidia-h200_probe_math.csv")
    library = probes[(probes["provider"] == "cublaslt") & (probes["status"] == "ok")]
    first_turn = (library["flops"] / library["burst_median_s"]).groupby(library["recipe"]).max()
    rows = ["| NVIDIA H200 | datasheet | first turn | settled | share |", "|---|---|---|---|---|"]
    for recipe in ("bf16", "fp8_tensorwise", "fp8_axiswise"):
        rate = constants.loc[f"gemm.cublaslt.{recipe}.ceiling_flops_per_s"]
        numbers = [rate["datasheet"], first_turn[recipe], rate["value"]]
        cells = " | ".join(f"{number / 1e12:.0f} TFLOP/s" for number in numbers)
        rows.append(f"| fastest product, {recipe} | {cells} | {rate['fraction']:.0%} |")
    for kind in ("read", "copy"):
        rate = constants.loc[f"dram_{kind}_bytes_per_s"]
        cells = f"{rate['datasheet'] / 1e12:.2f} TB/s | | {rate['value'] / 1e12:.2f} TB/s"
        rows.append(f"| memory, {kind} | {cells} | {rate['fraction']:.0%} |")
    launch = constants["value"]["launch_graph_s"]
    rows.append(f"| empty kernel in a graph | | | {launch * 1e6:.2f} us | |")
    return "\n" + "\n".join(rows) + "\n"


def sentinel_numbers(gemm: pd.DataFrame) -> dict[str, str]:
    """How far the repetitions of the sentinel of products lie apart, and what each says of itself.

    gemm: its tidy table; of several sentinels, the one whose repetitions lie furthest apart.
    """
    rows = gemm[gemm["sweeps"].astype(str).str.split(";").map(lambda names: "sentinel" in names)]
    rows = rows[rows["status"] == "ok"]
    groups = rows.groupby(["provider", "recipe", "m", "n", "k"])
    spread = groups["median_s"].max() / groups["median_s"].min() - 1
    widest = groups.get_group(spread.idxmax())
    half = (widest["ci95_high_s"] - widest["ci95_low_s"]) / 2 / widest["median_s"]
    return {
        "sentinel_count": str(len(widest)),
        "sentinel_range": f"{100 * spread.max():.1f} %",
        "sentinel_deviation": f"{100 * widest['median_s'].std() / widest['median_s'].mean():.1f} %",
        "sentinel_half": f"{100 * half.median():.2f} %",
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
    numbers = measured_numbers(tables_of_publication())
    for file in PAGES:
        text = file.read_text(encoding="utf-8")
        file.write_text(with_numbers(text, numbers), encoding="utf-8")
        print(file)
