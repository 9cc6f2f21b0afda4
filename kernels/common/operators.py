"""Functions that launch kernels, as operators of torch: torch.compile puts them into its graphs.

    @operator(like)
    def rowwise_dim0(x, dtype=torch.float8_e4m3fn, *, power_of_two=False): ...

An eager call is a call of the function, replayed (kernels.common.replay); where Dynamo or
torch.export traces it, it is a node of the graph, whose shapes `like` tells. Either way it runs on
the GPU of its first tensor, whichever is current, as operators of torch do. No operator has a
gradient: what it returns requires none.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final, Literal, ParamSpec, TypeVar, get_origin

import torch

from kernels.common.architecture import on_device_of
from kernels.common.replay import replayed

P = ParamSpec("P")
R = TypeVar("R", bound=torch.Tensor | Sequence[torch.Tensor])
_LIBRARY: Final = torch.library.Library("roofcal", "FRAGMENT")
# An operator of torch.library.custom_op would cost 9 us more a call, of the host.
_TAGS: Final = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
_kernels_run_on_fakes: Final = ContextVar("kernels_run_on_fakes", default=False)


@contextmanager
def kernels_on_fakes() -> Iterator[None]:
    """Inside this context `torch.ops.roofcal` run their kernel launches on fake tensors.

    So the ahead-of-time compiler (roofcal.measure.compile) sees them. Outside, they return
    fakes of the result. The functions of Python launch their kernels in any case.
    """
    token = _kernels_run_on_fakes.set(True)
    try:
        yield
    finally:
        _kernels_run_on_fakes.reset(token)


def define(
    schema: str,
    by_kernels: Callable[..., Any],
    like: Callable[..., Any],
    by_reference: Callable[..., Any] | None = None,
) -> Any:
    """Define an operator, and return it.

    by_kernels     what it does on GPUs, and on CPUs where there is no `by_reference`
    like           what that returns, of the same arguments, without values
    """
    name = schema.partition("(")[0]

    def on_gpus(*args: Any, **kwargs: Any) -> Any:
        with _on_device_of_first(args, kwargs):
            return by_kernels(*args, **kwargs)

    _LIBRARY.define(schema, tags=_TAGS)
    _LIBRARY.impl(name, on_gpus, "CUDA")
    _LIBRARY.impl(name, by_reference or by_kernels, "CPU")
    # Else torch's fallback claims a gradient, and warns only when somebody asks for it.
    _LIBRARY.impl(name, torch.library.fallthrough_kernel, "Autograd")

    def of_fakes(*arguments: Any, **options: Any) -> Any:
        return (by_kernels if _kernels_run_on_fakes.get() else like)(*arguments, **options)

    torch.library.register_fake(f"roofcal::{name}", of_fakes, lib=_LIBRARY)
    return getattr(torch.ops.roofcal, name).default


def traced_as(in_graphs: Callable[P, R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: a traced call is one of `in_graphs`; others run on their first tensor's GPU."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if torch.compiler.is_compiling():
                return in_graphs(*args, **kwargs)
            with _on_device_of_first(args, kwargs):
                return function(*args, **kwargs)

        return call

    return decorate


def untraced(reason: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: torch.compile ends its graph before such a call; with fullgraph it says why."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not torch.compiler.is_compiling():
                return function(*args, **kwargs)
            torch._dynamo.graph_break(msg=reason)
            # Here, not at import: torch.compiler.disable imports Dynamo, which takes seconds.
            outside: Callable[P, R] = torch.compiler.disable(function)
            return outside(*args, **kwargs)

        return call

    return decorate


def _on_device_of_first(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AbstractContextManager[object]:
    """A scope on the GPU of the first argument, a tensor, or the first tensor given by name."""
    if args:
        return on_device_of(args[0])
    named = next((x for x in kwargs.values() if isinstance(x, torch.Tensor)), None)
    # A function without its tensor says itself that it is missing.
    return nullcontext() if named is None else on_device_of(named)


def operator(
    like: Callable[..., Any] = lambda *_, **__: None,
    *,
    name: str = "",
    options: str = "",
    writes: str = "",
    replays: bool = True,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator of a function that launches kernels; see the module.

    like       what it returns, of the same arguments, without values
    name       of the operator, if not that of the function
    options    schema of its further keyword arguments, if it has them (`**options`)
    writes     name of the argument that it writes and returns; else it returns new tensors
    replays    whether eager calls are recorded and replayed
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        launched = replayed(function) if replays else function
        places = list(inspect.signature(function).parameters)

        def by_kernels(*args: Any, **kwargs: Any) -> Any:
            made = launched(*args, **kwargs)
            return None if writes else _in_own_memory(made, (*args, *kwargs.values()))

        node = define(_schema_of(function, name, options, writes), by_kernels, like)

        def in_graphs(*args: Any, **kwargs: Any) -> Any:
            made = node(*args, **kwargs)
            if writes:
                place = places.index(writes)
                return args[place] if place < len(args) else kwargs[writes]
            return tuple(made) if isinstance(made, list) else made

        return traced_as(in_graphs)(launched)

    return decorate


_SCHEMA_TYPES: Final = {
    torch.Tensor: "Tensor",
    torch.Tensor | None: "Tensor?",
    torch.dtype: "ScalarType",
    bool: "bool",
    float: "float",
    int | None: "int?",
}


def _schema_of(function: Callable[..., Any], name: str, options: str, writes: str) -> str:
    """The signature as torch.library wants it; Literals are strings there, tuples lists."""
    signature, arguments = inspect.signature(function), []
    for parameter in signature.parameters.values():
        by_name = (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
        if parameter.kind in by_name and "*" not in arguments:
            arguments.append("*")
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments.append(options)
            continue
        is_literal = get_origin(parameter.annotation) is Literal
        kind = "str" if is_literal else _SCHEMA_TYPES[parameter.annotation]
        default = parameter.default
        shown = "" if default is parameter.empty else f"={default!r}".replace("=torch.", "=")
        written = "Tensor(a!)" if parameter.name == writes else kind
        arguments.append(f"{written} {parameter.name}{shown}")
    made = "Tensor" if signature.return_annotation is torch.Tensor else "Tensor[]"
    name = name or function.__name__
    return f"{name}({', '.join(arguments)}) -> {'()' if writes else made}"


def _in_own_memory(made: Any, arguments: tuple[Any, ...]) -> Any:
    """What an operator may return: nothing that lies in the memory of an argument."""
    if isinstance(made, torch.Tensor):
        return made
    tensors = [x for x in arguments if isinstance(x, torch.Tensor)]
    addresses = {x.untyped_storage().data_ptr() for x in tensors}
    return [x.clone() if x.untyped_storage().data_ptr() in addresses else x for x in made]
