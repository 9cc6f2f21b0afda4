"""What measuring each op imports of this checkout. It imports nothing of ours itself."""

import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path


def print_real_imports(not_deciding: Sequence[str], ops: Sequence[str]) -> None:
    """Print [op, files] of every op as JSON lines, each found in a process of its own.

    That process is forked from this one, which has imported what all ops share.
    """
    measure = importlib.import_module("roofcal.measure")
    for module in pkgutil.walk_packages(measure.__path__, "roofcal.measure."):
        # the processes that compile ahead import the kernels of all ops; the timing one does not
        if module.name.replace(".", "/") + ".py" not in not_deciding:
            importlib.import_module(module.name)
    for op in ops:
        if os.fork():
            assert os.wait()[1] == 0, op
            continue
        importlib.import_module("roofcal.ops.bench").load_bench(op)
        ours = [m for n, m in sys.modules.items() if n.split(".")[0] in ("roofcal", "kernels")]
        found = {str(Path(str(m.__file__)).relative_to(Path.cwd())) for m in ours}
        print(json.dumps([op, sorted(found)]), flush=True)
        os._exit(0)
