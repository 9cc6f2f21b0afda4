"""A break-even map of two recipes whose classes a test knows."""

from pathlib import Path

import pandas as pd

TOKENS = (16, 64, 256)
SIDES = (512, 1024)


def made_up_map() -> pd.DataFrame:
    """At m = 16 slower, at 64 uncertain, at 256 faster, for both weights and with any casts."""
    kinds = [
        (recipe, passes, casts)
        for recipe in ("fp8_axiswise", "fp8_tensorwise")
        for passes in ("forward", "forward_backward")
        for casts in ("none", "torch_compile")
    ]
    speedups = {16: (0.5, "slower"), 64: (1.1, "uncertain"), 256: (1.6, "faster")}
    rows = [
        {
            "recipe": recipe,
            "pass": passes,
            "casts": casts,
            "m": m,
            "n": side,
            "k": side,
            "speedup": speedups[m][0],
            "low": speedups[m][0] / 1.2,
            "high": speedups[m][0] * 1.2,
            "class": speedups[m][1],
            "breakeven_m": 64,
            "breakeven_m_low": 64,
            "breakeven_m_high": 256 if side == 512 else None,
        }
        for recipe, passes, casts in kinds
        for side in SIDES
        for m in TOKENS
    ]
    return pd.DataFrame(rows)


def write_map(folder: Path) -> None:
    made_up_map().to_csv(folder / "breakeven.csv", index=False)
