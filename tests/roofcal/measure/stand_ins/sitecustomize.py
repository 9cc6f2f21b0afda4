"""Puts stand-ins in the place of modules, in every Python that has this folder on PYTHONPATH.

ROOFCAL_STAND_INS is JSON: full name of a module -> the file to run instead. So a test can break a
worker or an op in a process of its own, and the product needs no door for it.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _StandIns(MetaPathFinder):
    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 (as every finder)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname not in self._files:
            return None
        return importlib.util.spec_from_file_location(fullname, self._files[fullname])


sys.meta_path.insert(0, _StandIns(json.loads(os.environ.get("ROOFCAL_STAND_INS", "{}"))))
