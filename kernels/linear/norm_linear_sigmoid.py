"""LayerNorm -> float8 linear -> sigmoid, with the casts fused to what comes before them.

Forward: the layer norm is cast as it is made; what the norm makes is written only where a product
reads it uncast, or where the cast along the columns needs a second pass. Backward: grad * s * (1 -
s) is cast in the same way; the norm's backward is plain torch, which torch.compile fuses.

It is the block of torchao's float8 benchmark: there neither the norm nor the linear has parameters
beyond the weight; both may have them here. Recipes and sizes as in kernels.linear.layer.
"""

from typing import Any

import torch
from torch.nn import functional

from kernels.linear import fusable
from kernels.linear import ops as linear_ops
from kernels.linear.layer import (
    Plan,
    RecipeLike,
    check,
    check_features,
    columns_of_saved,
    filled_up,
    gradients,
    granularities,
    linear,
    multiplied,
    plan_of,
    rows_and_saved,
    split_casts,
)
from kernels.linear.recipes import recipe_of

Optional = torch.Tensor | None


class _Block(torch.autograd.Function):
    """sigmoid(layer_norm(x) @ w.T + bias) of matrices."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        w: torch.Tensor,
        norm_weight: Optional,
        norm_bias: Optional,
        bias: Optional,
        plan: Plan,
        eps: float,
    ) -> torch.Tensor:
        need_w = ctx.needs_input_grad[1]
        need_y = any(ctx.needs_input_grad[i] for i in (0, 2, 3))
        ends = (plan.x[0], plan.x[1] if need_w else "")
        keep = not plan.output[0] or (need_w and not plan.grad_weight[0])
        casts = linear_ops.layer_norm_cast(x, norm_weight, norm_bias, eps, *ends, keep)
        rows, columns, kept = split_casts(casts, ends)
        w_rows, of_w = rows_and_saved(w, plan.w, plan.saves_of_w, need_y)
        plain = (kept[0], w.t()) if kept else None
        z = multiplied(plan, "output", rows, w_rows, plain).to(x.dtype)
        s = torch.sigmoid(z if bias is None else z + bias.to(z.dtype))
        of_y = columns or (kept if need_w else [])
        norm = [] if norm_weight is None else [norm_weight]
        ctx.plan, ctx.eps, ctx.counts = plan, eps, (len(of_y), len(of_w), len(norm))
        ctx.dtypes = (x.dtype, w.dtype)
        # w is `gradient_of` of linear_ops under torch.compile, where it costs no memory
        ctx.fuses = fusable.applies()
        ctx.save_for_backward(x, s, *of_y, *of_w, *norm, *([w] if ctx.fuses else []))
        return s

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Optional, ...]:
        plan, needs = ctx.plan, ctx.needs_input_grad
        x, s, *rest = ctx.saved_tensors
        of_y, of_w = rest[: ctx.counts[0]], rest[ctx.counts[0] : ctx.counts[0] + ctx.counts[1]]
        norm_weight = rest[sum(ctx.counts[:2])] if ctx.counts[2] else None
        gradient_of = rest[-1] if ctx.fuses else grad
        need_y, need_w = any(needs[i] for i in (0, 2, 3)), needs[1]
        ends = (plan.grad_out[0] if need_y else "", plan.grad_out[1] if need_w else "")
        keep = needs[4] or (need_y and not ends[0]) or (need_w and not ends[1])
        casts = linear_ops.sigmoid_grad_cast(
            grad.contiguous(), s, *ends, keep, gradient_of=gradient_of
        )
        rows, columns, kept = split_casts(casts, ends)
        plain = kept[0] if kept else None
        w_columns = columns_of_saved(of_w, plan.w, plan.saves_of_w, grad) if need_y else None
        grad_y, grad_w = gradients(plan, (plain, rows, columns), w_columns, of_y, (need_y, need_w))
        of_norm = layer_norm_backward(
            grad_y, x, norm_weight, ctx.eps, (needs[0], needs[2], needs[3])
        )
        grad_bias = plain.sum(0) if needs[4] and plain is not None else None
        of_weight = grad_w.to(ctx.dtypes[1]) if grad_w is not None else None
        return of_norm[0], of_weight, of_norm[1], of_norm[2], grad_bias, None, None


def layer_norm_backward(
    grad: Optional, x: torch.Tensor, weight: Optional, eps: float, needed: tuple[bool, ...]
) -> tuple[Optional, Optional, Optional]:
    """Gradients of x, weight and bias of a layer norm along the rows, in fp32 or wider."""
    if grad is None:
        return None, None, None
    wide = torch.promote_types(x.dtype, torch.float32)
    values, back = x.to(wide), grad.to(wide)
    centred = values - values.mean(1, keepdim=True)
    spread = (centred.square().mean(1, keepdim=True) + eps).rsqrt()
    normed = centred * spread
    inner = back if weight is None else back * weight.to(wide)
    along = (inner * normed).mean(1, keepdim=True)
    of_x = (inner - inner.mean(1, keepdim=True) - normed * along) * spread
    return (
        of_x.to(x.dtype) if needed[0] else None,
        (back * normed).sum(0).to(x.dtype) if needed[1] else None,
        back.sum(0).to(x.dtype) if needed[2] else None,
    )


def norm_linear_sigmoid(
    x: torch.Tensor,
    w: torch.Tensor,
    plan: Plan,
    *,
    norm_weight: Optional = None,
    norm_bias: Optional = None,
    bias: Optional = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """sigmoid(layer_norm(x) @ w.T + bias), x [..., K], w [N, K]; raises ValueError as `linear`."""
    check(x, w, plan, bias)
    if not x.is_meta and torch.is_autocast_enabled(x.device.type):
        with torch.autocast(x.device.type, enabled=False):
            affine = {"norm_weight": norm_weight, "norm_bias": norm_bias}
            return norm_linear_sigmoid(x, w, plan, **affine, bias=bias, eps=eps)
    if not any(granularities(plan)):  # autograd differentiates it as often as is asked for
        normed = functional.layer_norm(x, x.shape[-1:], norm_weight, norm_bias, eps)
        return torch.sigmoid(linear(normed, w, bias, plan))
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    y: torch.Tensor = _Block.apply(
        filled_up(rows, w, plan), w, norm_weight, norm_bias, bias, plan, eps
    )
    return y[: rows.shape[0]].reshape(*x.shape[:-1], w.shape[0])


class NormLinearSigmoid(torch.nn.Module):
    """LayerNorm -> linear -> sigmoid; see the module."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = False,
        affine: bool = False,
        eps: float = 1e-5,
        recipe: RecipeLike = "axiswise",
        product: str = "cublaslt",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """affine: whether the norm has a weight and a bias. Raises ValueError as Float8Linear."""
        super().__init__()
        self.plan, self.recipe, self.eps = plan_of(recipe, product), recipe_of(recipe), eps
        check_features(in_features, out_features, self.plan)
        self.norm = torch.nn.LayerNorm(
            in_features, eps, elementwise_affine=affine, device=device, dtype=dtype
        )
        self.linear = torch.nn.Linear(in_features, out_features, bias, device=device, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features] -> [..., out_features]."""
        return norm_linear_sigmoid(
            x,
            self.linear.weight,
            self.plan,
            norm_weight=self.norm.weight,
            norm_bias=self.norm.bias,
            bias=self.linear.bias,
            eps=self.eps,
        )
