"""Estimates of two made-up language models whose numbers a test knows."""

from pathlib import Path

import pandas as pd


def made_up_estimates() -> pd.DataFrame:
    """`small` fits one GPU in both recipes, `large` fits two in bf16 and one in int4 alone."""
    rows = [
        *_line("small", "bf16", 1, 1e-3),
        *_line("small", "int4", 1, 0.5e-3),
        *_line("small", "bf16", 2, 0.8e-3, pipeline=2),
        _without("large", "bf16", 1),
        *_line("large", "int4", 1, 2e-3),
        *_line("large", "bf16", 2, 4e-3),
        *_line("large", "int4", 2, 1.5e-3),
    ]
    return pd.DataFrame(rows)


def write_estimates(folder: Path) -> None:
    made_up_estimates().to_csv(folder / "llm.csv", index=False)


def _line(
    model: str, recipe: str, tensor: int, step: float, pipeline: int = 1
) -> list[dict[str, object]]:
    return [
        _row(model, recipe, tensor, pipeline)
        | {
            "fits": "yes",
            "batch": batch,
            "largest_batch": 20,
            "first_token_s": 0.1 * batch,
            "first_token_low_s": 0.09 * batch,
            "first_token_high_s": 0.12 * batch,
            "decode_step_s": step * (1 + batch / 20),
            "decode_step_low_s": 0.9 * step * (1 + batch / 20),
            "decode_step_high_s": 1.1 * step * (1 + batch / 20),
            "decode_tokens_per_s": batch / step / (1 + batch / 20),
            "decode_tokens_per_s_low": batch / step / (1 + batch / 20) / 1.1,
            "decode_tokens_per_s_high": batch / step / (1 + batch / 20) / 0.9,
            "decode_bound_by": "dram",
        }
        for batch in (1, 4, 16, 20)
    ]


def _without(model: str, recipe: str, tensor: int) -> dict[str, object]:
    return _row(model, recipe, tensor, 1) | {"fits": "no", "batch": 1, "largest_batch": 0}


def _row(model: str, recipe: str, tensor: int, pipeline: int) -> dict[str, object]:
    return {
        "model": model,
        "recipe": recipe,
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "weight_bytes_per_gpu": 1.6e10 / tensor,
    }
