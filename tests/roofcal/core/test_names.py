"""A name that nobody knows is answered with the one that was probably meant."""

from collections.abc import Sequence

import pytest

from roofcal.core.names import did_you_mean, did_you_mean_or_all, unknown_names

OPS = ("gemm", "cast")
RECIPES = ("mxfp8", "fp8_axiswise", "bf16", "fp8_tensorwise", "int8", "int4_groupwise_g128")


@pytest.mark.parametrize(
    ("word", "names", "said"),
    [
        ("gem", OPS, "; did you mean 'gemm'?"),
        # All names of which the word is a part; words may be left out, and case does not count.
        ("fp8", RECIPES, "; did you mean 'fp8_axiswise' or 'fp8_tensorwise'?"),
        ("mxfp", RECIPES, "; did you mean 'mxfp8'?"),
        ("int4_g128", RECIPES, "; did you mean 'int4_groupwise_g128'?"),
        ("BF16", RECIPES, "; did you mean 'bf16'?"),
        ("g128_int4", ("int8", "int4_groupwise_g128"), ""),
        ("linear", OPS, ""),
    ],
)
def test_the_names_that_are_probably_meant_are_suggested(
    word: str, names: Sequence[str], said: str
) -> None:
    assert did_you_mean(word, names) == said


def test_without_a_near_name_the_message_ends_as_the_caller_says() -> None:
    assert did_you_mean("linear", OPS, otherwise=".") == "."
    assert did_you_mean_or_all("linear", OPS) == "; allowed: cast, gemm"


def test_only_unknown_names_are_lines() -> None:
    lines = list(unknown_names("a.yaml: ops", "op", ["cast", "gem"], OPS))
    assert lines == ["a.yaml: ops: unknown op 'gem'; did you mean 'gemm'?"]
