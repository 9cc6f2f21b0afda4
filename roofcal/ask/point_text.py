"""The prediction of one point as text for people."""

from collections.abc import Mapping
from typing import Any

from roofcal.ask.beyond_probes import FAR, extrapolation_text, unprobed_text
from roofcal.ask.shape_limits import joined_refusals
from roofcal.core.units import format_seconds


def as_text(answer: Mapping[str, Any]) -> str:
    """Time, rates, whose they are, and what makes them less sure; answer: by points.as_dict."""
    low, high = answer["predicted_low_s"], answer["predicted_high_s"]
    is_guess = (answer["extrapolated_doublings"] or 0.0) > FAR
    claim = "perhaps" if is_guess else "95 %:"
    span = f" ({claim} {format_seconds(low)} to {format_seconds(high)})" if low else ""
    flops_per_s = answer["predicted_flops_per_s"]  # 0 of a cast
    rates = f"{flops_per_s / 1e12:.4g} TFLOP/s, " if flops_per_s else ""
    rates += f"{answer['predicted_bytes_per_s'] / 1e12:.4g} TB/s"
    described = "its wave description" if answer["model"] == "wave" else "its datasheet"
    origin = answer["environment"] or described
    lines = [
        f"{format_seconds(answer['predicted_s'])}{span}, bound by {answer['bound_by']}",
        rates,
        f"model {answer['model']}, provider {answer['provider']}, {answer['device']}, {origin}",
    ]
    if answer["measured_s"] is not None:
        low, high = (format_seconds(answer[f"measured_{end}_s"]) for end in ("low", "high"))
        off = answer["predicted_s"] / answer["measured_s"] - 1
        measured = f"{format_seconds(answer['measured_s'])} (95 %: {low} to {high})"
        lines.append(f"measured at this shape: {measured}, predicted {off:+.1%}")
    if answer["extrapolated"]:
        lines.append(extrapolation_text(answer["extrapolated_doublings"]))
    if answer["unprobed"]:
        lines.append(unprobed_text(answer["unprobed"]))
    if answer["slower_providers"]:
        lines.append(_choice(answer))
    lines += [f"refused: {reason}" for reason in joined_refusals(answer["refused_providers"])]
    return "\n".join(lines)


def _choice(answer: Mapping[str, Any]) -> str:
    """Why this provider, and how often the predicted fastest provider was the fastest."""
    probability = answer["fastest_probability"]
    sure = "" if probability is None else f" with probability {probability:.2f}"
    slower = ", ".join(answer["slower_providers"])
    text = f"{answer['provider']} is the fastest{sure}, before {slower}"
    if answer["choices_measured"] is None:
        return f"{text}; no measured points tell how often this choice is right"
    return (
        f"{text}; on {answer['choices_measured']} measured points the provider predicted to be the "
        f"fastest was so {answer['choices_right']} times, and {answer['mean_regret']:.1%} slower "
        f"than the fastest on average, {answer['worst_regret']:.0%} at worst"
    )
