"""What is prepared before anything is timed: equal data, a correct output, cold copies."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from roofcal.core.records import PlanPoint, Protocol
from roofcal.measure import contender
from roofcal.measure.contender import IncorrectError, copy_count, data_seed, distinct_bytes, prepare
from roofcal.measure.ranks import SingleRank
from roofcal.ops.bench import ExactOutputs, load_bench
from tests.roofcal.measure.runs import hot, point

CPU = torch.device("cpu")
KIB = 1 << 10


@given(st.integers(0, 1 << 40), st.integers(KIB, 1 << 28))
def test_cold_copies_exceed_twice_the_cache_and_are_no_more_than_it_takes(
    bytes_per_copy: int, cache_bytes: int
) -> None:
    count = copy_count(bytes_per_copy, cache_bytes)
    assert 1 <= count <= 512
    assert count * bytes_per_copy > 2 * cache_bytes or count == 512
    assert count <= 2 or (count - 1) * bytes_per_copy <= 2.2 * cache_bytes
    assert (count == 1) is (bytes_per_copy > 4 * cache_bytes), "one is enough where it is so large"


def prepared(recipe: str = "fp32", cache_bytes: int = 4 * KIB, **changes: Any) -> Any:
    return prepare(point(recipe, **changes), CPU, 0, cache_bytes)


def test_cold_copies_are_equal_data_at_different_addresses() -> None:
    found = prepared(protocol=Protocol(cache="cold"))
    assert len(found.copies) == math.ceil(2.2 * 4 * KIB / (3 * 8 * 8 * 4))
    assert len({copy["a"].data_ptr() for copy in found.copies}) == len(found.copies)
    assert all(torch.equal(copy["a"], found.copies[0]["a"]) for copy in found.copies)
    assert len(found.copies) * found.bytes_per_copy > 2 * 4 * KIB
    assert len(prepared(protocol=Protocol(cache="hot")).copies) == 1


class Watched(SingleRank):
    """A rank that notes whether it is in a step of all ranks."""

    inside = False

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        self.inside = True
        yield
        self.inside = False


def test_what_may_fail_on_one_rank_is_a_step_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a rank without memory for the operands in bf16 goes on to the next point alone."""
    team, found = Watched(), dict[str, bool]()
    for name in ("load_bench", "arranged_inputs", "relative_errors", "quantisation_error"):
        real = getattr(contender, name)

        def noted(*given: Any, name: str = name, real: Any = real) -> Any:
            found[name] = team.inside
            return real(*given)

        monkeypatch.setattr(contender, name, noted)
    prepare(point("fp32"), CPU, 0, 4 * KIB, team)
    assert found == {
        "load_bench": False,
        "arranged_inputs": True,
        "relative_errors": True,
        "quantisation_error": True,
    }


def test_copies_are_in_the_layout_of_the_provider() -> None:
    wanted = replace(
        point("bf16"),
        op="mixed_gemm",
        provider="tinygemm",
        recipe="int4_groupwise_g64",
        shape={"m": 2, "n": 64, "k": 128},
    )
    found = prepare(wanted, CPU, 0, 4 * KIB)
    assert all(set(copy) == {"a", "packed", "scales_and_zeros"} for copy in found.copies)
    stored = 64 * 128 // 2 + 2 * 2 * 64 * 2
    assert found.bytes_per_copy == stored + 2 * 2 * 128 + 2 * 2 * 64


@pytest.mark.parametrize(("recipe", "vectors"), [("read", 1), ("write", 1), ("copy", 2)])
def test_an_output_that_is_an_input_counts_once(recipe: str, vectors: int) -> None:
    """Otherwise a stream over `dst` would rotate over half as much, within the cache."""
    stream = {"op": "probe_copy", "provider": "torch_eager", "shape": {"size_bytes": KIB}}
    found = prepared(recipe, cache_bytes=64 * KIB, **stream)
    assert found.bytes_per_copy == vectors * KIB + (4 if recipe == "read" else 0)
    own = sum(tensor.nbytes for copy in found.copies for tensor in copy.values())
    assert own > 2 * 64 * KIB


def test_bytes_are_those_of_all_tensors_however_nested() -> None:
    one, two = torch.zeros(4), torch.zeros(8, dtype=torch.bfloat16)
    nest = [{"a": one, "b": [two, two.view(2, 4)]}, (one.t(), torch.zeros(2, dtype=torch.int8))]
    assert distinct_bytes([nest, None]) == 16 + 16 + 2


def test_the_data_follow_the_shape_and_the_seed_of_the_study_whoever_the_contender() -> None:
    plain, rounded = prepared("fp32").copies[0], prepared("bf16").copies[0]
    assert torch.equal(plain["a"].bfloat16(), rounded["a"])
    assert torch.equal(plain["b"].bfloat16(), rounded["b"])
    base = data_seed(point("fp32"), 7)
    same: dict[str, Any] = {"provider": "another", "protocol": Protocol(cache="hot"), "repeat": 3}
    assert base == data_seed(point("fp32", **same), 7)
    assert base == data_seed(point("fp32", op="probe_gemm"), 7)
    assert base == data_seed(point("fp8_tensorwise", shape={"k": 8, "n": 8, "m": 8}), 7)
    assert base != data_seed(point("fp32", shape={"m": 8, "n": 8, "k": 16}), 7)
    assert base != data_seed(point("fp32"), 8)
    assert base != data_seed(point("fp32", op="cast"), 7)


ACCURACY = point("any", protocol=Protocol(method="accuracy"))


@pytest.mark.parametrize(
    ("wanted", "error", "tolerance", "is_right"),
    [
        (hot("any"), 0.02, 0.01, False),
        (hot("any"), math.nan, math.inf, False),
        (hot("any"), 1e-30, 0.0, False),
        (hot("any"), 0.0, 0.0, True),
        (ACCURACY, 1e9, 0.01, True),  # every error that is a number is a result of method accuracy
        *((ACCURACY, error, 0.01, False) for error in (math.nan, math.inf)),
    ],
)
def test_a_wrong_output_is_never_timed(
    monkeypatch: pytest.MonkeyPatch,
    wanted: PlanPoint,
    error: float,
    tolerance: float,
    is_right: bool,
) -> None:
    bench = SimpleNamespace(
        make_inputs=lambda *_: {"x": torch.ones(4)},
        build=lambda *_: lambda inputs: inputs["x"] + 1,
        relative_error=lambda *_: error,
        tolerance=lambda *_: tolerance,
    )
    monkeypatch.setattr(contender, "load_bench", lambda _: bench)
    if is_right:
        found = prepare(wanted, CPU, 0, KIB)
        assert (found.relative_error, len(found.copies), found.output_errors) == (error, 1, None)
    else:
        with pytest.raises(IncorrectError, match="exceeds") as wrong:
            prepare(wanted, CPU, 0, KIB)
        assert wrong.value.relative_error == error or math.isnan(error)


def test_a_later_visit_allocates_anew_and_takes_over_what_the_first_one_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = prepared(protocol=Protocol(cache="cold"))
    monkeypatch.setattr(contender, "relative_errors", None)  # a second check would call it
    monkeypatch.setattr(load_bench("gemm"), "build", None)
    wanted = point("fp32", protocol=Protocol(cache="cold"))
    later = prepare(wanted, CPU, 0, 4 * KIB, earlier=(first.checked, ExactOutputs()))
    assert later.checked == first.checked
    assert len(later.copies) == len(first.copies)
    for one, other in zip(first.copies, later.copies, strict=True):
        assert torch.equal(one["a"], other["a"])
        assert one["a"].data_ptr() != other["a"].data_ptr()


def test_what_the_format_costs_is_measured_on_the_points_own_draws() -> None:
    shape = {"m": 4, "n": 64, "k": 128}
    found = {
        recipe: prepared(recipe, op="mixed_gemm", provider=provider, shape=shape)
        for recipe, provider in (
            ("bf16", "torch_cpu"),
            ("fp8_weight_only", "torch_cpu"),
            ("int4_groupwise_g128", "tinygemm"),
        )
    }
    errors = [contender.quantisation_error for contender in found.values()]
    assert errors[0] == 0
    assert 0.02 < errors[1] < 0.04 < errors[2] < 0.14
    assert all(c.relative_error < 5e-3 for c in found.values())
    probe = prepared("int4_groupwise_g128", op="probe_mixed_gemm", provider="tinygemm", shape=shape)
    assert probe.quantisation_error is None
