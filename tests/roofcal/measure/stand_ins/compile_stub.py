"""Stands in for roofcal.measure.compile_worker: compiles nothing, ends as points tell it to.

A point of recipe `slow` is answered when the file that GO names is there; at one of
recipe `killed` the process kills itself, as Linux does when memory runs out. A point of recipe
`uncompilable` does not compile.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

server = os.getppid()
print("{}", flush=True)
for line in sys.stdin:
    point = json.loads(line)
    if point["recipe"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    while point["recipe"] == "slow" and not Path(os.environ["GO"]).exists():
        if os.getppid() != server:  # the real one is killed by Linux with the server
            sys.exit()
        time.sleep(0.01)
    reason = "no such layout" if point["recipe"] == "uncompilable" else None
    print(json.dumps({"point": "", "kernels": 1, "seconds": 0.0, "reason": reason}), flush=True)
