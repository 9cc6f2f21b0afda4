"""Small ledgers to try the loading and judging of claims on."""

from pathlib import Path
from typing import Any

import yaml

from roofcal.claims import Entry, load_claims

SPEEDUP: dict[str, Any] = {
    "op": "gemm",
    "points": {"recipe": "fp8_tensorwise", "provider": "cublaslt"},
    "against": {"recipe": "bf16"},
    "quantity": "speedup",
}


def ledger(*claims: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A ledger as YAML gives it; claims without an id and words get some."""
    named = [{"id": f"c{number}", "says": "so"} | claim for number, claim in enumerate(claims)]
    head = {"ledger": "made-up", "title": "Made up", "url": "https://example.org", "date": 2026}
    return {**head, "hardware": "a card", "claims": named} | changes


def written(folder: Path, *claims: dict[str, Any], **changes: Any) -> Path:
    """The folder with that ledger in it."""
    folder.mkdir(exist_ok=True)
    (folder / "made-up.yaml").write_text(
        yaml.safe_dump(ledger(*claims, **changes), sort_keys=False)
    )
    return folder


def entries(folder: Path, *claims: dict[str, Any], **changes: Any) -> list[Entry]:
    """Its claims, loaded."""
    return load_claims(written(folder, *claims, **changes))
