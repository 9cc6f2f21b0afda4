"""What users call: in graphs of torch.compile, on a GPU that is not current, on fewer units."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.library import opcheck
from triton.runtime.interpreter import InterpretedFunction

from kernels.cast import blocks, both_ways, columns, fused, rows, tensorwise
from kernels.common import architecture
from kernels.gather import all_gather_matmul
from kernels.gather import product as gathered_matmul
from kernels.gather.plans import SMALL as GATHER_TILES
from kernels.gather.plans import chunks_of
from kernels.gemm import axiswise, blockwise, operands
from kernels.int4 import gemm as int4_module
from kernels.int4 import rule as int4_rule
from kernels.int4.gemm import int4_gemm
from kernels.int4.packing import Int4Weights
from kernels.linear import ops as linear_ops
from kernels.streams import memory
from tests.exhaustive import in_turn
from tests.kernels.int4.int4_cases import weights
from tests.kernels.on_gpus import H200, TensorOnGpu1, two_gpus

E5M2 = torch.float8_e5m2
CPU = torch.device("cpu")
X = torch.randn(16, 144, generator=torch.Generator().manual_seed(0)).bfloat16()
Q = X.to(torch.float8_e4m3fn)
ONE, ROWS, STRIPS = torch.ones(()), torch.ones(16, 1), torch.ones(16, 2)
INT4, INT4_X = weights(70, 128, 64, CPU, zeros=True), X[:, :128].contiguous()
LINE = X.float().flatten()
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
CALLS: dict[str, Call] = {
    "tensorwise": (tensorwise.tensorwise, (X,), {}),
    "tensorwise, scale": (tensorwise.tensorwise, (X, E5M2), {"scale": torch.ones(1)}),
    "tensorwise, amax": (tensorwise.tensorwise, (X,), {"amax": ONE, "power_of_two": True}),
    "rows": (rows.rowwise_dim0, (X, E5M2), {"power_of_two": True}),
    "columns": (columns.rowwise_dim1, (X,), {}),
    "rows and columns": (columns.rowwise_both, (X,), {"units": 1}),
    "rows and maxima": (columns.rowwise_dim0_and_maxima, (X,), {}),
    "mxfp8_dim0": (blocks.mxfp8_dim0, (X,), {"rounding": "ceil"}),
    "mxfp8_dim1": (blocks.mxfp8_dim1, (X,), {}),
    "mxfp8_both": (blocks.mxfp8_both, (X, E5M2), {}),
    "strips": (blocks.blockwise_1x128, (X,), {}),
    "strips down": (blocks.blockwise_1x128_dim1, (X,), {"power_of_two": True}),
    "squares": (blocks.blockwise_128x128, (X,), {}),
    "tensorwise both": (both_ways.tensorwise_both, (X,), {"amax": ONE}),
    "strips both": (both_ways.blockwise_1x128_both, (X,), {}),
    "squares both": (both_ways.blockwise_128x128_both, (X, E5M2), {}),
    "layer_norm": (fused.layer_norm, (X, X[0], None, E5M2), {"both": True, "eps": 1e-3}),
    "rms_norm": (fused.rms_norm, (X, X[0]), {"keep": True, "kind": "blockwise_1x128"}),
    "silu_mul": (fused.silu_mul, (X, X), {"both": True, "keep": True, "kind": "mxfp8_ceil"}),
    "sigmoid_grad": (fused.sigmoid_grad, (X, X), {}),
    "product": (axiswise.gemm, (Q, Q[:, :], ROWS, ONE), {"accumulation": "slow"}),
    "product of blocks": (blockwise.gemm, (Q, Q, STRIPS, STRIPS), {"units": 3}),
    "int4": (int4_gemm, (INT4_X, INT4), {}),
    "read": (memory.read_sum, (LINE,), {}),
    "fill": (memory.fill, (LINE.clone(), 2.0), {}),
    "copy": (memory.copy, (LINE,), {"dst": torch.empty_like(LINE)}),
}


def as_tuple(made: Any) -> tuple[torch.Tensor, ...]:
    return (made,) if isinstance(made, torch.Tensor) else made


@pytest.mark.parametrize(("name", "dynamic"), in_turn(CALLS, (False, True)))
def test_one_graph_makes_what_a_call_makes(name: str, dynamic: bool) -> None:
    function, args, options = CALLS[name]
    torch._dynamo.reset()
    seen: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        seen.append(graph)
        return graph.forward

    compiled = torch.compile(function, fullgraph=True, backend=backend, dynamic=dynamic)
    made, expected = compiled(*args, **options), function(*args, **options)
    assert type(made) is type(expected)
    for a, b in zip(as_tuple(made), as_tuple(expected), strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        assert torch.equal(a.float(), b.float())
    nodes = [node for node in seen[0].graph.nodes if node.op == "call_function"]
    assert "roofcal" in str(nodes[0].target)
    assert len(seen) == 1


@pytest.mark.parametrize(
    "call",
    [
        columns.rowwise_both,
        lambda x: fused.silu_mul(x, x, kind="blockwise_1x128", both=True),
        lambda x: axiswise.gemm(x.to(E5M2), Q.to(E5M2), ONE, ONE),
        lambda x: int4_gemm(x[:, :128].contiguous(), INT4),
    ],
)
def test_one_graph_serves_any_number_of_rows(call: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(call, fullgraph=True, backend=counter, dynamic=True)
    for rows_of_x in (15, 9, 5):
        x = X[:rows_of_x].clone()  # of a view, Dynamo would guard on what it is a view of
        made, expected = compiled(x), call(x)
        for a, b in zip(as_tuple(made), as_tuple(expected), strict=True):
            assert torch.equal(a.float(), b.float())
    assert counter.frame_count == 1


@pytest.mark.parametrize("name", [name for name in CALLS if name != "int4"])
def test_fakes_and_schemas_say_what_an_operator_makes(name: str) -> None:
    function, args, options = CALLS[name]
    of_family = {"product": "axiswise_gemm", "product of blocks": "blockwise_gemm"}
    operator = getattr(torch.ops.roofcal, of_family.get(name, function.__name__)).default
    if name == "read":
        options = {"units": 1}
    tests = ("test_faketensor", "test_aot_dispatch_dynamic")
    # torch cannot compare fp8 matrices on a CPU, as its test of schemas does
    by_schema = () if "product" in name else ("test_schema", "test_autograd_registration")
    opcheck(operator, args, options, test_utils=(*tests, *by_schema))


def test_the_fake_of_an_int4_product_says_what_it_makes() -> None:
    tensors = (INT4_X, INT4.packed, INT4.scales, INT4.zeros)
    opcheck(torch.ops.roofcal.int4_gemm.default, (*tensors, 70, 128, 64, False))
    out = torch.empty(16, 70, dtype=torch.bfloat16)
    opcheck(torch.ops.roofcal.int4_gemm_out.default, (*tensors, 70, 128, 64, False, out))


def test_a_graph_writes_an_int4_product_where_it_is_told() -> None:
    out = torch.empty(16, 70, dtype=torch.bfloat16)
    compiled = torch.compile(int4_gemm, fullgraph=True, backend="aot_eager")
    assert compiled(INT4_X, INT4, out=out) is out
    assert torch.equal(out, int4_gemm(INT4_X, INT4))


def test_no_result_claims_a_gradient() -> None:
    x = X.clone().requires_grad_()
    compiled = torch.compile(rows.rowwise_dim0, fullgraph=True, backend="aot_eager")
    assert not any(made.requires_grad for made in (*compiled(x), *rows.rowwise_dim0(x)))


def on_gpu_1(value: Any) -> Any:
    if isinstance(value, Int4Weights):
        tensors = {name: on_gpu_1(getattr(value, name)) for name in ("packed", "scales", "zeros")}
        return Int4Weights(**tensors, rows=value.rows, k=value.k, group=value.group)
    return value.as_subclass(TensorOnGpu1) if isinstance(value, torch.Tensor) else value


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[int, ...]]]:
    """(current device, grid) of what is launched, on a machine that is said to have two GPUs."""
    current, noted = two_gpus(monkeypatch), []

    def note(_self: Any, *_: Any, grid: Any, warmup: bool, **options: Any) -> None:
        del warmup, options
        noted.append((current[0], tuple(grid)))

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: H200)
    monkeypatch.setattr(torch.version, "hip", "6.4")  # so that nothing asks for PTX
    monkeypatch.setattr(architecture, "_shared_memory_of_device", lambda _: 65536)
    monkeypatch.setattr(InterpretedFunction, "run", note)
    return noted


@pytest.mark.parametrize("name", CALLS)
def test_kernels_run_on_the_gpu_of_their_input(
    name: str, launches: list[tuple[int, tuple[int, ...]]]
) -> None:
    function, args, options = CALLS[name]
    function(*map(on_gpu_1, args), **{key: on_gpu_1(value) for key, value in options.items()})
    assert {device for device, _ in launches} == {1}
    assert torch.cuda.current_device() == 0


def test_arguments_by_name_come_in_any_order(launches: list[tuple[int, tuple[int, ...]]]) -> None:
    rows.rowwise_dim0(dtype=E5M2, x=on_gpu_1(X))
    int4_gemm(weights=on_gpu_1(INT4), x=on_gpu_1(INT4_X))
    assert [device for device, _ in launches] == [1, 1]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        rows.rowwise_dim0(dtype=E5M2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (linear_ops.cast, (X, "axiswise", "tensorwise")),
        (linear_ops.layer_norm_cast, (X, None, None, 1e-5, "axiswise", "", False)),
        (linear_ops.sigmoid_grad_cast, (X, X, "blockwise", "", False)),
        (linear_ops._product, (Q, Q, ONE, ONE, "tensorwise", "fast")),
    ],
)
def test_operators_of_linears_run_on_the_gpu_of_their_input(
    operator: Any, arguments: tuple[Any, ...], launches: list[tuple[int, tuple[int, ...]]]
) -> None:
    on_cuda = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    operator.redispatch(on_cuda, *map(on_gpu_1, arguments))
    assert {device for device, _ in launches} == {1}


LARGE = torch.zeros(4096, 640, dtype=torch.bfloat16)


def launch_gathered(units: int | None = None) -> None:
    a, w, c = (
        torch.zeros(*size, dtype=torch.bfloat16) for size in 2 * [(4096, 64)] + [(4096, 4096)]
    )
    cut = chunks_of(4096, GATHER_TILES[0].m, 1)
    flags = torch.zeros(2, dtype=torch.int32)
    a, w, c = map(on_gpu_1, (a, w, c))
    config = GATHER_TILES[0]
    gathered_matmul.launch(a, w, c, None, flags, flags, cut, config, rank=0, units=units)


PERSISTENT: dict[str, tuple[Callable[..., Any], int]] = {
    "tensorwise": (lambda **units: tensorwise.tensorwise(on_gpu_1(LARGE), **units), 8),
    "tensorwise both": (lambda **units: both_ways.tensorwise_both(on_gpu_1(LARGE), **units), 8),
    "columns": (lambda **units: columns.rowwise_dim1(on_gpu_1(LARGE), **units), 4),
    "product": (
        lambda **units: axiswise.gemm(
            *map(on_gpu_1, (LARGE.to(E5M2), LARGE.to(E5M2), ONE, ONE)), **units
        ),
        1,
    ),
    "product of blocks": (
        lambda **units: blockwise.gemm(
            *map(on_gpu_1, (LARGE.to(E5M2), LARGE.to(E5M2), *2 * [torch.ones(32, 5)])), **units
        ),
        1,
    ),
    "fused": (lambda **units: fused.silu_mul(*2 * [on_gpu_1(LARGE)], both=True, **units), 8),
    "read": (lambda **units: memory.read_sum(on_gpu_1(LARGE.float().flatten()), **units), 16),
    "gathered": (launch_gathered, 1),
}


@pytest.mark.parametrize("name", PERSISTENT)
@pytest.mark.parametrize("by", ["argument", "limit"])
def test_persistent_kernels_leave_units_to_others(
    name: str,
    by: str,
    launches: list[tuple[int, tuple[int, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fused, "BOTH_LEAST_ELEMENTS", 0)
    call, per_unit = PERSISTENT[name]
    call()
    whole = launches[0][1][0]
    launches.clear()
    architecture.limit_units(24 if by == "limit" else 100)
    try:
        call(**({"units": 24} if by == "argument" else {}))
    finally:
        architecture.limit_units(None)
    assert launches[0][1][0] <= 24 * per_unit < whole


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (tensorwise.tensorwise, (X.repeat(32, 1),)),
        (both_ways.tensorwise_both, (X.repeat(32, 1),)),
        (columns.rowwise_dim1, (X.repeat(129, 1)[:, :40],)),
        (axiswise.gemm, (Q.repeat(18, 1), Q.repeat(18, 1), ONE, ONE)),
        (blockwise.gemm, (Q.repeat(18, 1), Q.repeat(18, 1), *2 * [torch.ones(288, 2)])),
    ],
)
def test_fewer_units_change_no_bits(
    function: Callable[..., Any], args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (tensorwise, columns, operands):
        monkeypatch.setattr(module, "compute_units", lambda _, units=None: units or 9)
    for module, name in ((axiswise, "FAST"), (blockwise, "BLOCKS")):
        monkeypatch.setattr(module, name, getattr(module, name)[-1:])  # by waves it would choose
    for a, b in zip(as_tuple(function(*args)), as_tuple(function(*args, units=2)), strict=True):
        assert torch.equal(a.float(), b.float())


def test_an_int4_product_is_chosen_anew_for_another_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []

    def choose(x: torch.Tensor, *_: Any, **__: Any) -> Any:
        limits.append(architecture.units_limit())
        return int4_rule.plain(x.shape[0])

    monkeypatch.setattr(int4_module, "default_config", choose)
    monkeypatch.setattr(int4_module, "_CHOICES", {})
    for limit in (None, 24, 24, None):
        monkeypatch.setattr(architecture, "_limit", limit)
        int4_gemm(INT4_X, INT4)
    assert limits == [None, 24]


def test_a_configuration_of_the_callers_ends_a_graph_and_changes_no_result() -> None:
    def product(x: torch.Tensor) -> torch.Tensor:
        return int4_gemm(x + 1, INT4, config=int4_rule.plain(16))

    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="a graph takes no config"):
        torch.compile(product, fullgraph=True, backend="eager")(INT4_X)
    torch._dynamo.reset()
    made = torch.compile(product, backend="eager")(INT4_X)
    assert torch.equal(made, product(INT4_X))


@pytest.mark.usefixtures("launches")
def test_a_gather_runs_on_the_gpu_of_its_weights_and_in_no_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(all_gather_matmul, "check_weights", lambda *_, **__: None)
    gather = object.__new__(all_gather_matmul.AllGatherMatmul)
    gather.what = gather._scaled = gather._device = None  # type: ignore[assignment]
    gather._way = SimpleNamespace(multiplied=lambda *_: torch.cuda.current_device())  # type: ignore[assignment]
    assert gather(on_gpu_1(X)) == 1
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="would keep the buffer of one turn"):
        torch.compile(gather.__call__, fullgraph=True, backend="eager")(X)
