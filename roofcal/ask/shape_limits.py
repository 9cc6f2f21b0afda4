"""Shapes that a provider refuses, with the nearest sizes that work."""

from collections.abc import Iterable, Mapping

from roofcal.ops.spec import OpSpec, Shape


def refusal(op: OpSpec, provider: str, recipe: str, shape: Shape) -> str | None:
    """Why a provider does not run a shape, and the nearest sizes that it runs; None if it does."""
    multiples = op.size_multiples(provider, recipe)
    refused = {axis: size for axis, size in multiples.items() if shape[axis] % size}
    if not refused:
        return None
    required = ", ".join(f"{axis} in multiples of {multiple}" for axis, multiple in refused.items())
    nearest = ", ".join(
        f"{axis}={_neighbours(shape[axis], multiple)}" for axis, multiple in refused.items()
    )
    got = ", ".join(f"{axis}={shape[axis]}" for axis in refused)
    return (
        f"{provider} takes {recipe} with {required}, got {got}; the nearest that works: {nearest}"
    )


def refusals(op: OpSpec, providers: Iterable[str], recipe: str, shape: Shape) -> Mapping[str, str]:
    """Provider -> why it refuses the shape, of those that do."""
    reasons = {provider: refusal(op, provider, recipe, shape) for provider in providers}
    return {provider: reason for provider, reason in reasons.items() if reason is not None}


def _neighbours(size: int, multiple: int) -> str:
    below = size - size % multiple
    return f"{below} or {below + multiple}" if below else str(multiple)
