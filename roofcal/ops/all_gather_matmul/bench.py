"""Providers of all-gather + product; called by every rank of the default process group.

nccl_then_gemm    one grouped NCCL all-gather of rows and scales, then op gemm's library product
gloo_then_gemm    the same on CPUs, with gloo
torch_fused       torch.ops.symm_mem.fused_all_gather_matmul, ..._scaled_matmul
symm_mem_fused    kernels.gather.all_gather_matmul. Its rows are written into its buffers before
                  timing, as the layer before would write them: no copy of the shard is timed
gemm_only, all_gather_only   see spec
"""

import importlib
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import distributed
from torch.distributed.distributed_c10d import _coalescing_manager

from roofcal.ops.bench import Call, Inputs, gathered, norm_error, require_peer_access, worst
from roofcal.ops.gemm import bench as gemm
from roofcal.ops.spec import Unsupported

tolerance = gemm.tolerance
_ROWS = ("a", "scale_a")  # what is sharded; the rest is each rank's own


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    """This rank's rows of A, and its own B, as op gemm quantises them."""
    own = {**shape, "m": shape["m"] // distributed.get_world_size()}
    return gemm.make_inputs(recipe, own, generator, distribution)


def arrange(provider: str, recipe: str, inputs: Inputs) -> Inputs:
    """gemm_only reads rows that were gathered before."""
    return _all_rows(inputs) if provider == "gemm_only" else inputs


def _all_rows(inputs: Inputs) -> dict[str, torch.Tensor]:
    return {name: gathered(x) if name in _ROWS else x for name, x in inputs.items()}


def build(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    """What a rank does; raises Unsupported where the provider is not to be had here."""
    if provider == "all_gather_only":
        return _gather_rows
    if provider == "torch_fused":
        require_peer_access(provider)
        importlib.import_module("torch.distributed._symmetric_memory")  # declares the operators
        return _torch_scaled if recipe.startswith("fp8") else _torch_plain
    if provider == "symm_mem_fused":
        return _Ours(recipe, shape)
    product = gemm.build("cublaslt" if torch.cuda.is_available() else "torch_cpu", recipe, shape)
    if provider == "gemm_only":
        return product
    if provider in ("nccl_then_gemm", "gloo_then_gemm"):
        return lambda inputs: product({**inputs, **_gather_rows(inputs)})
    raise Unsupported(f"unknown provider '{provider}' for op all_gather_matmul")


def _gather_rows(inputs: Inputs) -> dict[str, torch.Tensor]:
    """Rows and their scales of all ranks; on GPUs both in one NCCL group, to pay for one start."""
    parts = {name: inputs[name] for name in _ROWS if name in inputs}
    if len(parts) == 1 or not parts["a"].is_cuda:
        return {name: gathered(x) for name, x in parts.items()}
    with _coalescing_manager(device=parts["a"].device):
        return {name: gathered(x) for name, x in parts.items()}


def _world_group() -> distributed.ProcessGroup:
    group = distributed.group.WORLD
    assert group is not None
    return group


def _torch_plain(inputs: Inputs) -> torch.Tensor:
    fused = torch.ops.symm_mem.fused_all_gather_matmul
    weights = [inputs["b"].t()]
    _, products = fused(inputs["a"], weights, 0, _world_group().group_name, return_A=False)
    return cast(torch.Tensor, products[0])


def _torch_scaled(inputs: Inputs) -> torch.Tensor:
    fused = torch.ops.symm_mem.fused_all_gather_scaled_matmul
    _, products = fused(
        inputs["a"],
        [inputs["b"].t()],
        inputs["scale_a"],
        [inputs["scale_b"]],
        gather_dim=0,
        group_name=_world_group().group_name,
        biases=[None],
        result_scales=[None],
        out_dtypes=[torch.bfloat16],
        use_fast_accum=[True],
    )
    return cast(torch.Tensor, products[0])


class _Ours:
    """Our kernel, its buffers filled by the first call: their rows stay while turns alternate."""

    def __init__(self, recipe: str, shape: Mapping[str, int]) -> None:
        try:
            # Imported here: a CPU study needs no Triton.
            from kernels.gather import all_gather_matmul as ours  # type: ignore[attr-defined, unused-ignore]  # noqa: PLC0415
        except ImportError as error:
            raise Unsupported(f"provider 'symm_mem_fused' cannot be loaded: {error}") from error
        self._buffers = 2
        scaled = recipe.startswith("fp8")
        world = distributed.get_world_size()
        try:
            self._op = ours.AllGatherMatmul(
                _world_group(),
                shape["m"] // world,
                shape["k"],
                shape["n"],
                torch.float8_e4m3fn if scaled else torch.bfloat16,
                scaled=scaled,
                buffers=self._buffers,
            )
        except RuntimeError as error:
            if type(error).__name__ == "NoPeerAccess":
                raise Unsupported(str(error)) from error
            raise
        self._filled = False

    def __call__(self, inputs: Inputs) -> torch.Tensor:
        if not self._filled:
            for _ in range(self._buffers - 1):
                self._fill(inputs)
                self._multiply(inputs)
            self._fill(inputs)
            self._filled = True
        return self._multiply(inputs)

    def _fill(self, inputs: Inputs) -> None:
        self._op.own_shard().copy_(inputs["a"])
        scales = self._op.own_scales()
        if scales is not None:
            scales.copy_(inputs["scale_a"])

    def _multiply(self, inputs: Inputs) -> torch.Tensor:
        product: torch.Tensor = self._op(inputs["b"], inputs.get("scale_b"))
        return product


def relative_error(recipe: str, inputs: Inputs, output: Any) -> float:
    """Of the product as in op gemm, rows gathered anew; of all_gather_only that of the rows."""
    everything = _all_rows(inputs)
    if isinstance(output, Mapping):
        pairs = ((output[name].float(), everything[name].float()) for name in output)
        return worst(*(norm_error(*pair) for pair in pairs))
    return gemm.relative_error(recipe, everything, output)
