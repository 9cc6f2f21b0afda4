"""An estimate as JSON values in SI units, for programs."""

from typing import Any

from roofcal.ask.llm.architecture import active_parameters, parameters
from roofcal.ask.llm.estimate import Estimate, Stretch
from roofcal.ask.llm.memory import Memory
from roofcal.ask.llm.operators import Operator
from roofcal.ask.llm.wording import notes
from roofcal.models.duration import Duration, Rate


def as_dict(found: Estimate, *, operators: bool = True) -> dict[str, Any]:
    """The estimate, with the operators of both phases where they are wanted."""
    asked = found.question
    load = asked.workload
    answer: dict[str, Any] = {
        "model": asked.model.model,
        "parameters": parameters(asked.model),
        "active_parameters": active_parameters(asked.model),
        "device": found.device,
        "environment": found.environment,
        "recipe": asked.recipe,
        "tensor_parallel": asked.tensor,
        "pipeline_parallel": asked.pipeline,
        "batch": load.batch,
        "prompt_tokens": load.prompt,
        "output_tokens": load.output,
        "chunk_tokens": load.chunk,
        **_memory(found.memory),
        **_timed("first_token", found.first_token),
        **_timed("decode_step", found.decode.total),
        **_rated("request_tokens_per_s", found.request_tokens_per_s),
        **_rated("decode_tokens_per_s", found.decode_tokens_per_s),
        **_rated("output_tokens_per_s", found.output_tokens_per_s),
        "prefill_bound_by": found.prefill.bound_by,
        "decode_bound_by": found.decode.bound_by,
        "prefill_bubble": found.prefill.bubble,
        "decode_bubble": found.decode.bubble,
        "notes": notes(found),
    }
    if operators:
        answer |= {"prefill": _listed(found.prefill), "decode": _listed(found.decode)}
    return answer


def _memory(memory: Memory) -> dict[str, float]:
    return {
        "weight_bytes_per_gpu": memory.weight_bytes,
        "kv_cache_bytes_per_gpu": memory.kv_bytes,
        "activation_bytes_per_gpu": memory.activation_bytes,
        "needed_bytes_per_gpu": memory.needed_bytes,
        "usable_bytes_per_gpu": memory.usable_bytes,
        "largest_batch": memory.largest_batch,
    }


def _listed(stretch: Stretch) -> list[dict[str, Any]]:
    return [_operator(operator) for operator in stretch.operators]


def _operator(operator: Operator) -> dict[str, Any]:
    return {
        "operator": operator.name,
        "calls": operator.calls,
        **_timed("call", operator.duration),
        **_timed("total", operator.total),
        "bound_by": operator.bound_by,
    }


def _timed(name: str, duration: Duration) -> dict[str, float]:
    return {
        f"{name}_s": duration.value_s,
        f"{name}_low_s": duration.low_s,
        f"{name}_high_s": duration.high_s,
    }


def _rated(name: str, rate: Rate) -> dict[str, float]:
    return {name: rate.value, f"{name}_low": rate.low, f"{name}_high": rate.high}
