"""exp and log: right to the last bits, which no vector instruction changes."""

import math
import os
import subprocess
import sys

import numpy as np

from roofcal.core import portable_math
from tests.paths import ROOT

RANDOM = np.random.default_rng(7)


def test_exp_is_right_to_the_last_bits() -> None:
    x = np.concatenate([RANDOM.uniform(-700, 700, 2000), RANDOM.uniform(-1, 1, 2000), [0.0]])
    exact = np.array([math.exp(value) for value in x])
    assert np.abs(portable_math.exp(x) / exact - 1).max() < 2e-15
    assert portable_math.exp(np.array([0.0]))[0] == 1.0


def test_log_is_right_to_the_last_bits_also_near_one() -> None:
    spread = np.exp(RANDOM.uniform(-600, 600, 2000))
    near_one = 1 + RANDOM.uniform(-1e-3, 1e-3, 2000)
    x = np.concatenate([spread, near_one, [0.5, 2.0]])
    exact = np.array([math.log(value) for value in x])
    assert np.abs(portable_math.log(x) / exact - 1).max() < 2e-15
    assert portable_math.log(np.array([1.0]))[0] == 0.0


PROGRAM = """
import hashlib
import numpy as np
from roofcal.core import portable_math
from roofcal.fitting.batched_least_squares import minimise
x = np.random.default_rng(3).uniform(0.1, 50.0, (40, 33))
digest = hashlib.sha256()
for function in (portable_math.exp, portable_math.log):
    digest.update(function(x).tobytes())
time = np.linspace(0.1, 3.0, 33)
def residuals(p, _):
    decay = portable_math.exp(-np.exp2(0 * p[:, :1]) * p[:, 1:2] * time)
    value = p[:, :1] * decay - 2.0 * portable_math.exp(-1.3 * time) - 0.01 * x[0] / 50
    return value, np.stack([decay, -p[:, :1] * time * decay], axis=1)
start = np.random.default_rng(4).uniform(0.5, 3.0, (17, 2))
bounds = np.array([0.1, 0.1]), np.array([10.0, 10.0])
digest.update(minimise(residuals, start, bounds, np.ones((17, 33)), 0.05)[0].tobytes())
print(digest.hexdigest())
"""


def test_bits_do_not_depend_on_the_vector_instructions_of_the_processor() -> None:
    # NumPy ignores features that a processor lacks, with a warning.
    plain = {name: value for name, value in os.environ.items() if "NPY" not in name}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    started = [
        subprocess.Popen(command, cwd=ROOT, env=plain | disabled, stdout=subprocess.PIPE)
        for disabled in (
            {},
            {"NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX"},
            {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"},
        )
    ]
    digests = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(set(digests)) == 1
