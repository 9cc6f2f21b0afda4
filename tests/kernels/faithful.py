"""Makes Triton's interpreter convert floats as GPUs do.

Triton 3.6's own conversion to fp8 drops the carry of the mantissa, does not saturate and gets
subnormals wrong; that to bf16 truncates. Here torch converts: to nearest even, and to fp8 with
saturation, as `cvt.rn.satfinite` of NVIDIA GPUs does. Arithmetic on bf16 stays wrong: kernels load
bf16 and convert it to fp32 before anything else.

It also lets the interpreter replace the functions of triton.language once per launch. Triton's own
looks through all of them again whenever one @triton.jit function calls another, a third of the time
of a test.
"""

import inspect
import sys
from functools import cache
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch
import triton.language as tl

_TORCH: Final = {
    tl.bfloat16: torch.bfloat16,
    tl.float16: torch.float16,
    tl.float32: torch.float32,
    tl.float64: torch.float64,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e5: torch.float8_e5m2,
}
_BITS: Final = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def convert(values: Any, source: Any, target: Any, rounding: Any) -> Any:
    """Bits of `values` in the target's type, as an unsigned NumPy array of the same shape."""
    raw = np.ascontiguousarray(values)
    signed = torch.from_numpy(raw.view(f"int{8 * raw.itemsize}").copy())
    floats = signed.view(_BITS[8 * raw.itemsize]).view(_TORCH[source])
    wanted = _TORCH[target]
    if target in (tl.float8e4nv, tl.float8e5):
        largest = torch.finfo(wanted).max
        floats = floats.float().clamp(-largest, largest)
    width = target.primitive_bitwidth
    bits = floats.to(wanted).view(_BITS[width]).numpy()
    return bits.view(f"uint{width}").reshape(raw.shape)


@cache
def _languages(function: Any) -> list[ModuleType]:
    """What `function` knows of triton.language: the module itself, its core, or both."""
    modules = filter(inspect.ismodule, function.__globals__.values())
    return [module for module in modules if module in (tl, tl.core)]


def install() -> None:
    """Replace the interpreter's conversion; needs TRITON_INTERPRET=1 before Triton is imported."""
    from triton.runtime import interpreter

    assert "triton.runtime.interpreter" in sys.modules
    interpreter._convert_float = convert
    replace_all = interpreter._patch_lang

    def replace_language(function: Any) -> Any:
        """The scope that restores the language; of what is replaced already, an empty one."""
        languages = _languages(function)
        if languages and not any(tl.core.is_builtin(module.load) for module in languages):
            return interpreter._LangPatchScope()
        return replace_all(function)

    interpreter._patch_lang = replace_language
