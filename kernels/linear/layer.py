"""A linear layer in float8, forward and backward, with a recipe per operand of its three products.

    linear = Float8Linear(4096, 14336, recipe="axiswise", device="cuda", dtype=torch.bfloat16)
    linear = Float8Linear.from_linear(trained, recipe={"output": "axiswise", ...})

Recipes: kernels.linear.recipes. Products are rounded to bf16 and then to the type of x. The forward
pass casts x and w along their rows, the backward pass grad_out along its rows and columns. The
gradients read x and w along their columns too. `saves` says what is kept for that:

    casts    x and w are cast along their columns in the forward pass, from the same read. The casts
             are kept, a byte per element; torch.compile cannot compute these again. A tensorwise w
             is kept as `inputs` does: a parameter takes no memory to keep, and its later cast
             needs no pass that finds the amax. A w that is computed in each forward pass
             (weight_norm, spectral_norm, pruning) is kept whole until the backward pass
    inputs   x and w are kept as they are and cast along their columns in the backward pass.
             torch.compile computes x again from what its neighbours keep, where it can; of
             tensorwise x, and of axiswise x of 2^25 elements and more, it fuses that with the
             cast, so that x is not stored

Under torch.compile parts of casts of x and grad_out fuse with what computes them
(kernels.linear.fusable).

In and out features are multiples of 16 (fp8 products read rows in units of 16 bytes); the rows of x
are filled up with zeros to such a multiple. Everything is an operator of torch, so that
torch.compile and torch.export see one graph. On a CPU the values are those of
kernels.linear.reference. Under autocast x comes in its type, as in torch.nn.Linear; w is cast to
fp8 from the type that it has.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Final, NamedTuple

import torch
from torch.nn import functional
from torch.nn.utils import parametrize

from kernels.common.checks import CASTABLE, dtype_names
from kernels.linear import fusable
from kernels.linear import ops as linear_ops
from kernels.linear.ops import PRODUCTS
from kernels.linear.recipes import HIGH_PRECISION, LinearRecipe, recipe_of

RecipeLike = LinearRecipe | str | Mapping[str, Any]
Cast = list[torch.Tensor]
SAVED: Final = ("casts", "inputs")
_ALIGNMENT = 16


class Plan(NamedTuple):
    """A recipe as the ops read it: (rows, columns) of a cast, (granularity, sums) of a product.

    by: one of PRODUCTS; saves: one of SAVED
    """

    x: tuple[str, str]
    w: tuple[str, str]
    grad_out: tuple[str, str]
    output: tuple[str, str]
    grad_input: tuple[str, str]
    grad_weight: tuple[str, str]
    by: str
    saves: str

    @property
    def saves_of_w(self) -> str:
        """What of w is kept for the backward pass, one of SAVED."""
        return "inputs" if self.w == ("tensorwise", "tensorwise") else self.saves


def plan_of(recipe: RecipeLike, product: str = "cublaslt", saves: str = "casts") -> Plan:
    """The plan of a recipe; raises ValueError for an inconsistent one, or words not listed."""
    for name, word, allowed in (("product", product, PRODUCTS), ("saves", saves, SAVED)):
        if word not in allowed:
            raise ValueError(f"{name}: wanted {' or '.join(allowed)}, got {word}")
    r = recipe_of(recipe)
    ends = {
        "x": (_cast_name(r.output.a), _cast_name(r.grad_weight.b)),
        "w": (_cast_name(r.output.b, "squares"), _cast_name(r.grad_input.b, "squares")),
        "grad_out": (_cast_name(r.grad_input.a), _cast_name(r.grad_weight.a)),
    }
    products = {name: (_cast_name(each.a), each.summed) for name, each in r.products.items()}
    return Plan(**ends, **products, by=product, saves=saves)


def _cast_name(granularity: str, of_blocks: str = "blockwise") -> str:
    return {HIGH_PRECISION: "", "blockwise": of_blocks}.get(granularity, granularity)


def multiplied(
    plan: Plan, name: str, a: Cast, b: Cast, plain: tuple[torch.Tensor, torch.Tensor] | None
) -> torch.Tensor:
    """A product of two casts, or of `plain` where its operands are not cast."""
    granularity, sums = {
        "output": plan.output,
        "grad_input": plan.grad_input,
        "grad_weight": plan.grad_weight,
    }[name]
    if granularity:
        return linear_ops.product(a[0], b[0], a[1], b[1], granularity, sums, plan.by)
    assert plain is not None
    return plain[0] @ plain[1].to(plain[0].dtype)


def split_casts(casts: Cast, ends: tuple[str, str]) -> tuple[Cast, Cast, Cast]:
    """(along the rows, along the columns, what was cast, if it was kept) of what an op returned."""
    first = 2 if ends[0] else 0
    last = first + (2 if ends[1] else 0)
    return casts[:first], casts[first:last], casts[last:]


class _Linear(torch.autograd.Function):
    """y = x @ w.T of matrices; the plan says how."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, plan: Plan) -> torch.Tensor:
        need_x, need_w = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        fuses = fusable.applies()
        rows_of_x, saved_of_x = rows_and_saved(x, plan.x, plan.saves, need_w, fuses)
        rows_of_w, saved_of_w = rows_and_saved(w, plan.w, plan.saves_of_w, need_x)
        y = multiplied(plan, "output", rows_of_x, rows_of_w, (x, w.t()))
        ctx.plan, ctx.dtypes = plan, (x.dtype, w.dtype)
        ctx.counts, ctx.fuses = (len(saved_of_x), len(saved_of_w)), fuses
        # w is `gradient_of` of linear_ops under torch.compile, where it costs no memory
        ctx.save_for_backward(*saved_of_x, *saved_of_w, *([w] if fuses else []))
        return in_type(y, x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        plan, saved, fuses = ctx.plan, ctx.saved_tensors, fusable.applies()
        of_x, of_w = saved[: ctx.counts[0]], saved[ctx.counts[0] : sum(ctx.counts)]
        need_x, need_w = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        ends = (plan.grad_out[0] if need_x else "", plan.grad_out[1] if need_w else "")
        grad_out = grad_out.contiguous()
        gradient_of = saved[-1] if ctx.fuses else grad_out
        rows, columns, _ = split_casts(_cast(grad_out, ends, fuses, gradient_of), ends)
        grad_x, grad_w = gradients(
            plan,
            (grad_out, rows, columns),
            columns_of_saved(of_w, plan.w, plan.saves_of_w, grad_out) if need_x else None,
            columns_of_saved(of_x, plan.x, plan.saves, grad_out, fuses) if need_w else None,
            (need_x, need_w),
        )
        grad_x = grad_x if grad_x is None else grad_x.to(ctx.dtypes[0])
        grad_w = grad_w if grad_w is None else grad_w.to(ctx.dtypes[1])
        return grad_x, grad_w, None


def _cast(
    x: torch.Tensor,
    ends: tuple[str, str],
    fuses: bool = False,
    gradient_of: torch.Tensor | None = None,
) -> Cast:
    """What linear_ops.cast returns; `fuses`: the amax of one scale is torch.compile's to fuse."""
    if not any(ends):
        return []
    if fuses and ends in (("tensorwise", ""), ("tensorwise", "tensorwise")):
        both = bool(ends[1])
        casts: Cast = linear_ops.cast_with_amax(x, fusable.amax(x), both, gradient_of=gradient_of)
    else:
        casts = linear_ops.cast(x, *ends, gradient_of=gradient_of)
    return casts


def rows_and_saved(
    x: torch.Tensor,
    ends: tuple[str, str],
    saves: str,
    is_read_again: bool,
    fuses: bool = False,
) -> tuple[Cast, Cast]:
    """(cast of x along its rows, what is saved for its cast along its columns).

    ends: granularities along the rows and the columns, "" for no cast. Saved are: nothing where the
    backward pass does not read x; x where it reads it uncast; the cast; or, where the plan saves
    inputs, x and the maxima or scales that spare the later cast a pass over x.
    """
    rows, columns = ends
    whole = x.contiguous()  # for kernels; x itself is what is saved
    if not is_read_again:
        return _cast(whole, (rows, ""), fuses), []
    if columns and saves == "casts":
        by_rows, by_columns, _ = split_casts(_cast(whole, ends, fuses), ends)
        return by_rows, by_columns
    if not (rows and columns):
        return _cast(whole, (rows, ""), fuses), [x]
    if fuses and rows == columns == "tensorwise":
        casts = _cast(whole, (rows, ""), fuses)
    else:
        casts = linear_ops.cast_rows_first(whole, rows, columns)
    maxima = linear_ops.maxima_for_columns(casts, rows, columns)
    return casts[:2], [x] if maxima is None else [x, maxima]


def columns_of_saved(
    saved: Sequence[torch.Tensor],
    ends: tuple[str, str],
    saves: str,
    grad_out: torch.Tensor,
    fuses: bool = False,
) -> Cast:
    """The cast along the columns, or x where there is none, of what rows_and_saved saved."""
    rows, columns = ends
    if not columns or saves == "casts":
        return list(saved)
    x, maxima = saved[0], saved[1] if len(saved) > 1 else None
    if fuses and maxima is not None:
        amaxes = linear_ops.amax_of_maxima(maxima, columns)
        return list(fusable.cast_computed_columns(x, amaxes, grad_out))
    casts: Cast = linear_ops.cast_columns_later(x.contiguous(), maxima, grad_out, rows, columns)
    return casts


def in_type(y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """y in the type; y itself, not y.to(dtype), where it has it.

    torch.compile of torch 2.11 takes y and y.to(its own type) for two outputs of an autograd
    Function, and hands the gradient to one and zeros to the other.
    """
    return y if y.dtype == dtype else y.to(dtype)


def gradients(
    plan: Plan,
    grad_out: tuple[torch.Tensor | None, Cast, Cast],
    w: Any,
    x: Any,
    needed: tuple[bool, bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """(grad_input, grad_weight) of (grad_out, its casts) and the saved ends of w and x."""
    plain, rows, columns = grad_out
    grad_x = grad_w = None
    if needed[0]:
        pair = None if plain is None else (plain, w[0])
        grad_x = multiplied(plan, "grad_input", rows, w, pair)
    if needed[1]:
        pair = None if plain is None else (plain.t(), x[0])
        grad_w = multiplied(plan, "grad_weight", columns, x, pair)
    return grad_x, grad_w


def linear(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, plan: Plan) -> torch.Tensor:
    """x [..., K] @ w [N, K].T + bias [N]; raises ValueError as `check` does."""
    kind = x.device.type
    if not x.is_meta and torch.is_autocast_enabled(kind):
        with torch.autocast(kind, enabled=False):  # it would reach into products that are not fp8
            narrow = torch.get_autocast_dtype(kind) if x.dtype in CASTABLE else x.dtype
            return linear(x.to(narrow), w, bias, plan)
    check(x, w, plan, bias)
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    if not any(granularities(plan)):  # autograd differentiates it as often as is asked for
        y = functional.linear(rows, w.to(rows.dtype))
    elif torch.is_grad_enabled() and (x.requires_grad or w.requires_grad):
        filled = filled_up(rows, w, plan)
        y = _Linear.apply(filled, w, plan)
        y = y if filled is rows else y[: rows.shape[0]]
    else:
        by_rows = _cast(rows, (plan.x[0], ""), fusable.applies())
        of_w = _cast(w.contiguous(), (plan.w[0], ""))
        y = in_type(multiplied(plan, "output", by_rows, of_w, (rows, w.t())), x.dtype)
    y = y if bias is None else y + bias.to(y.dtype)
    return y.reshape(*x.shape[:-1], w.shape[0])


def filled_up(rows: torch.Tensor, w: torch.Tensor, plan: Plan) -> torch.Tensor:
    """Rows, with zeros up to a multiple of 16 where the gradient of w sums over them in fp8."""
    missing = -rows.shape[0] % _ALIGNMENT if plan.grad_weight[0] and w.requires_grad else 0
    return functional.pad(rows, (0, 0, 0, missing)) if missing else rows


def check(x: torch.Tensor, w: torch.Tensor, plan: Plan, bias: torch.Tensor | None = None) -> None:
    """Raises ValueError for types, sizes or devices that do not fit, or products x's GPU lacks.

    x and w may have different types.
    """
    # Casts take three types; products without a cast one more.
    allowed = CASTABLE if any(granularities(plan)) else (*CASTABLE, torch.float64)
    for name, tensor in (("x", x), ("w", w)):
        if tensor.dtype not in allowed:
            wanted = dtype_names(*allowed)
            raise ValueError(f"{name}: wanted {wanted}, got {dtype_names(tensor.dtype)}")
    if w.ndim != 2:
        raise ValueError(f"w: wanted [out_features, in_features], got shape {list(w.shape)}")
    n, k = w.shape
    if x.ndim == 0 or x.shape[-1] != k:
        raise ValueError(f"x: wanted [..., {k}] for a weight of [{n}, {k}], got {list(x.shape)}")
    if x.device != w.device:
        raise ValueError(f"x: wanted a tensor on {w.device} as the weight is, got {x.device}")
    if bias is not None and (bias.shape != (n,) or bias.device != w.device):
        raise ValueError(
            f"bias: wanted [{n}] on {w.device} as the weight is, got {list(bias.shape)} on "
            f"{bias.device}"
        )
    check_features(k, n, plan)
    if x.is_cuda and "mxfp8" in granularities(plan):
        raise ValueError(
            "recipe: mxfp8 needs matrix instructions that scale blocks of 32 (compute capability "
            "10.0 and later), for which there is no product here yet; take blockwise, or a CPU, "
            "which computes its values"
        )


def granularities(plan: Plan) -> tuple[str, str, str]:
    """Of the first operand of each product; "" where it is not cast."""
    return plan.output[0], plan.grad_input[0], plan.grad_weight[0]


def check_features(k: int, n: int, plan: Plan) -> None:
    """Raises ValueError for features that no fp8 product takes."""
    if not any(granularities(plan)):
        return
    for name, size in (("in_features", k), ("out_features", n)):
        if size % _ALIGNMENT:
            raise ValueError(
                f"{name}: wanted a multiple of 16 (fp8 products read rows in units of 16 bytes), "
                f"got {size}"
            )


class Float8Linear(torch.nn.Linear):
    """torch.nn.Linear whose products run as a recipe says; see the module."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        recipe: RecipeLike = "axiswise",
        product: str = "cublaslt",
        saves: str = "casts",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """As torch.nn.Linear; raises ValueError for features or recipes that make no sense.

        recipe    name, mapping, line or LinearRecipe of kernels.linear.recipes
        product   who multiplies tensorwise and axiswise operands: cublaslt or triton
        saves     what is kept for the backward pass: casts or inputs; see the module
        """
        plan = plan_of(recipe, product, saves)
        check_features(in_features, out_features, plan)
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.recipe, self.plan = recipe_of(recipe), plan

    @classmethod
    def from_linear(
        cls,
        linear: torch.nn.Linear,
        recipe: RecipeLike = "axiswise",
        product: str = "cublaslt",
        saves: str = "casts",
    ) -> "Float8Linear":
        """A Float8Linear that shares the parameters of `linear`, but not its hooks.

        Raises ValueError as __init__, or for a weight that is computed from others.
        """
        if "weight" not in linear._parameters:
            raise ValueError(
                "linear: wanted one whose weight is a parameter, got one that computes it (a "
                "parametrization, pruning); convert_linears takes that one too"
            )
        sizes = (linear.in_features, linear.out_features, linear.bias is not None)
        float8 = cls(*sizes, recipe=recipe, product=product, saves=saves, device="meta")
        float8.weight, float8.bias = linear.weight, linear.bias
        return float8.train(linear.training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features] -> [..., out_features]."""
        return linear(x, self.weight, self.bias, self.plan)

    def extra_repr(self) -> str:
        """Sizes and recipe."""
        how = f"recipe={self.recipe.text}, product={self.plan.by}, saves={self.plan.saves}"
        return f"{super().extra_repr()}, {how}"


def convert_linears(
    module: torch.nn.Module,
    recipe: RecipeLike = "axiswise",
    product: str = "cublaslt",
    saves: str = "casts",
    *,
    should_convert: Callable[[str, torch.nn.Linear], bool] = lambda _name, _linear: True,
) -> torch.nn.Module:
    """Make the torch.nn.Linear modules below `module` Float8Linear ones; returns `module`.

    Each stays the object that it is, with its parameters, hooks, parametrizations (weight_norm,
    spectral_norm, pruning), attributes and every name it stands under. So an optimizer and a
    state_dict of before still fit. One warning names those that stay as they are, and why:
    subclasses of torch.nn.Linear, features that no fp8 product takes, weights that are no plain
    parameters (sharded or quantised ones), and linears with a `forward` of their own.

    Args:
        module: the model, or a torch.nn.Linear itself.
        recipe: as of Float8Linear.
        product: as of Float8Linear.
        saves: as of Float8Linear.
        should_convert: says of a name, as named_modules has it, and its module whether to; one that
            stands under several names is asked for by each, and stays if one of them does.

    Raises:
        ValueError: for a recipe, product or `saves` as Float8Linear does.
    """
    plan = plan_of(recipe, product, saves)
    names: dict[torch.nn.Linear, list[str]] = {}
    for name, linear in module.named_modules(remove_duplicate=False):
        if isinstance(linear, torch.nn.Linear):
            names.setdefault(linear, []).append(name)
    left = {}
    for linear, under in names.items():
        if not all(should_convert(name, linear) for name in under):
            continue
        if obstacle := _obstacle(linear, plan):
            left[under[0]] = obstacle
        else:
            _convert(linear, recipe_of(recipe), plan)
    if left:
        by_reason: dict[str, list[str]] = {}
        for name, why in left.items():
            by_reason.setdefault(why, []).append(name or "the linear itself")
        listed = "; ".join(f"{', '.join(own)} ({why})" for why, own in by_reason.items())
        warnings.warn(
            f"convert_linears left as they are: {listed}. Let should_convert return False for them "
            "to silence this",
            stacklevel=2,
        )
    return module


def _obstacle(linear: torch.nn.Linear, plan: Plan) -> str:  # noqa: PLR0911 (a reason each)
    """Why a linear cannot become a Float8Linear of this plan; "" if it can, or is one."""
    kind = parametrize.type_before_parametrizations(linear)
    weight = linear._parameters.get("weight")  # None: it is computed in the forward pass
    own = vars(linear)
    if isinstance(linear, Float8Linear):
        return "" if linear.plan == plan else f"it has the recipe {linear.recipe.text} already"
    if kind is not torch.nn.Linear:
        return f"{kind.__name__} is a subclass of torch.nn.Linear"
    if type(weight) not in (torch.nn.Parameter, type(None)):
        return f"its weight is a {type(weight).__name__}"
    if "forward" in own and not _forwards_of(linear):
        return "it has a forward of its own"
    if {"recipe", "plan"} & own.keys():
        return "it has an attribute `recipe` or `plan` of its own"
    try:
        check_features(linear.in_features, linear.out_features, plan)
    except ValueError as error:
        return str(error)
    return ""


def _forwards_of(linear: torch.nn.Linear) -> list[str]:
    """Attributes that hold the linear's own forward: accelerate wraps it and keeps it in one."""
    return [
        name
        for name, value in vars(linear).items()
        if getattr(value, "__func__", None) is torch.nn.Linear.forward and value.__self__ is linear
    ]


def _convert(linear: torch.nn.Linear, recipe: LinearRecipe, plan: Plan) -> None:
    """Make a torch.nn.Linear a Float8Linear, in place: whoever holds it, holds that."""
    if isinstance(linear, Float8Linear):
        return
    for name in _forwards_of(linear):
        setattr(linear, name, MethodType(Float8Linear.forward, linear))
    kind: type[Float8Linear] = Float8Linear
    if parametrize.is_parametrized(linear):  # its class holds a property for each such tensor
        held = {k: v for k, v in vars(type(linear)).items() if k not in ("__dict__", "__weakref__")}
        kind = type(f"Parametrized{Float8Linear.__name__}", (Float8Linear,), held)
    converted: Any = linear
    converted.__class__ = kind
    converted.recipe, converted.plan = recipe, plan
