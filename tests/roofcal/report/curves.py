"""Learning curves whose errors a test knows."""

from pathlib import Path

import pandas as pd

# repetition -> its error over that of the middle one
FACTORS = (0.5, 1.0, 4.0)


def made_up_curves() -> pd.DataFrame:
    """MAPE of the middle repetition: 20 % and 10 % for bf16, 8 % and 6 % for fp8, 4 % for casts."""
    curves = {
        ("gemm", "bf16", "cublaslt"): {12: 0.2, 48: 0.1},
        ("gemm", "fp8_axiswise", "cublaslt"): {12: 0.08, 48: 0.06},
        ("cast", "fp8_tensorwise", "torch_eager"): {8: 0.04},
    }
    rows = [
        {
            "op": op,
            "recipe": recipe,
            "provider": provider,
            "probes": probes,
            "repetition": repetition,
            "held_out": 60 - probes,
            "mape": mape * factor,
            "median": mape * factor / 2,
            "p95": mape * factor * 2,
        }
        for (op, recipe, provider), curve in curves.items()
        for repetition, factor in enumerate(FACTORS)
        for probes, mape in curve.items()
    ]
    return pd.DataFrame(rows)


def write_curves(folder: Path) -> None:
    made_up_curves().to_csv(folder / "learning.csv", index=False)
