"""A name that nobody knows is answered with the one that was probably meant."""

from collections.abc import Sequence

import pytest

from roofcal.core.names import did_you_mean, did_you_mean_or_all, short_kernel_name, unknown_names

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


@pytest.mark.parametrize(
    ("recorded", "short"),
    [
        ("_amax_kernel", "_amax_kernel"),
        ("nvjet_sm90_tst_128x8_64x12_2x1_v_bz_splitK_TNT",) * 2,
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EE"
            "EEviT0_T1_",
            "vectorized_elementwise_kernel",
        ),
        # the file of a kernel, with its hashes, is a namespace
        (
            "_ZN64_GLOBAL__N__62167398_25_CUDASymmetricMemoryOps_cu_39041df9_1350726one_shot_all_r"
            "educe_kernelIN3c108BFloat16ELi16ELi2EEEvPPT_S4_S4_mmPPjmm",
            "one_shot_all_reduce_kernel",
        ),
        (
            "_ZN7cutlass7Kernel2I52cutlass_75_tensorop_s1688gemm_bf16_128x128_tn_align1EEvNT_6Para"
            "msE",
            "cutlass_75_tensorop_s1688gemm_bf16_128x128_tn_align1",
        ),
        (
            "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            "ncclDevKernel_AllGather_RING_LL",
        ),
        ("_ZN4c10d16symmetric_memory14barrier_kernelEPPjiiim", "barrier_kernel"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int>(float const*)", "splitKreduce_kernel"),
        ("void at::(anonymous namespace)::norm_kernel<float>(int)", "norm_kernel"),
        ("Memset (Device)", "Memset (Device)"),
        ("_Zero", "_Zero"),
    ],
)
def test_a_kernel_of_cpp_is_called_by_its_own_name(recorded: str, short: str) -> None:
    assert short_kernel_name(recorded) == short
