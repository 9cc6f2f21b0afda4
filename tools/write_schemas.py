"""Write config/schema/*.json, the JSON Schema of each kind of YAML file, from the code.

Editors complete and check YAML with it. Run: python -m tools.write_schemas; a test fails on drift.
"""

import json
from pathlib import Path

from pydantic import BaseModel

from roofcal.claims import Ledger
from roofcal.core.devices import DeviceFile
from roofcal.core.language_models import LanguageModel
from roofcal.study.schema import StudyFile, SweepFile

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "config" / "schema"


def schemas() -> dict[str, str]:
    """File name -> text of its schema."""
    kinds: dict[str, type[BaseModel]] = {
        "config": StudyFile,
        "sweep": SweepFile,
        "model": LanguageModel,
        "claims": Ledger,
        "device": DeviceFile,
    }
    return {
        f"{name}.schema.json": json.dumps(kind.model_json_schema(), indent=2, sort_keys=True) + "\n"
        for name, kind in kinds.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in schemas().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
        print(FOLDER / file)
