"""A name that nobody knows is answered with the one that was probably meant."""

from roofcal.core.names import did_you_mean, did_you_mean_or_all, unknown_names

OPS = ("gemm", "cast")


def test_the_nearest_name_is_suggested() -> None:
    assert did_you_mean("gem", OPS) == "; did you mean 'gemm'?"


def test_names_of_which_a_word_is_a_part_are_all_suggested() -> None:
    recipes = ("mxfp8", "fp8_axiswise", "bf16", "fp8_tensorwise")
    assert did_you_mean("fp8", recipes) == "; did you mean 'fp8_axiswise' or 'fp8_tensorwise'?"
    assert did_you_mean("mxfp", recipes) == "; did you mean 'mxfp8'?"


def test_words_of_a_name_may_be_left_out_and_case_does_not_count() -> None:
    recipes = ("int8", "int4_groupwise_g32", "int4_groupwise_g128", "bf16")
    assert did_you_mean("int4_g128", recipes) == "; did you mean 'int4_groupwise_g128'?"
    assert did_you_mean("BF16", recipes) == "; did you mean 'bf16'?"
    assert did_you_mean("g128_int4", ("int8", "int4_groupwise_g128")) == ""


def test_without_a_near_name_the_message_ends_as_the_caller_says() -> None:
    assert did_you_mean("linear", OPS) == ""
    assert did_you_mean("linear", OPS, otherwise=".") == "."
    assert did_you_mean_or_all("linear", OPS) == "; allowed: cast, gemm"


def test_only_unknown_names_are_lines() -> None:
    lines = list(unknown_names("a.yaml: ops", "op", ["cast", "gem"], OPS))
    assert lines == ["a.yaml: ops: unknown op 'gem'; did you mean 'gemm'?"]
