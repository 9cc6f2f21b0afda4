"""Plans: which points, in which order, and what cannot be planned."""

from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.language_models import LanguageModel
from roofcal.core.visits.rows import is_sentinel
from roofcal.ops import BY_NAME
from roofcal.ops.gemm.spec import OP as GEMM
from roofcal.study.config import load_study
from roofcal.study.plan import PlanError, plan_op, sweep_shapes
from roofcal.study.schema import Sweep
from tests.paths import ROOT
from tests.roofcal.made_up_records import environment_of

GPU = environment_of(compute_units=132, memory_bytes=80 << 30)


def a_slice(**changes: Any) -> dict[str, Any]:
    return {
        "op": "gemm",
        "seed": 0,
        "contenders": {"bf16": ["cublaslt"], "fp8_axiswise": ["cublaslt"]},
        "sweeps": {"s": {"cubes": [64, 128, 256]}},
        "models": {},
        "sentinel": [],
    } | changes


def sizes_of(sweep: dict[str, Any], **models: LanguageModel) -> list[tuple[int, ...]]:
    """The sizes of each shape of a sweep."""
    shapes = sweep_shapes(GEMM, Sweep.model_validate(sweep), models, None)
    return [tuple(shape.values()) for shape in shapes]


def test_contenders_of_a_shape_stand_together_in_an_order_that_is_random_and_always_the_same() -> (
    None
):
    cubes = {"s": {"cubes": list(range(64, 64 * 30, 64))}}
    first = plan_op(a_slice(sweeps=cubes), GPU)
    groups = [list(members) for _, members in groupby(first, key=lambda p: p.group_key)]
    assert len(groups) == 29
    assert all({p.recipe for p in group} == {"bf16", "fp8_axiswise"} for group in groups)
    assert plan_op(a_slice(sweeps=cubes), GPU) == first
    assert plan_op(a_slice(sweeps=cubes, seed=1), GPU) != first
    sizes = [point.shape["m"] for point in first]
    assert sizes != sorted(sizes)


def test_equal_points_of_two_sweeps_are_one_point_of_both() -> None:
    points = plan_op(a_slice(sweeps={"a": {"cubes": [64]}, "b": {"cubes": [64]}}), GPU)
    assert len(points) == 2
    assert points[0].sweeps == ("a", "b")
    restricted = {"s": {"cubes": [64], "recipes": ["bf16"]}}
    assert [p.recipe for p in plan_op(a_slice(sweeps=restricted), GPU)] == ["bf16"]


def test_the_sentinels_come_first_and_are_no_points_of_the_study() -> None:
    panel = [
        {"provider": "cublaslt", "recipe": "bf16", "shape": {"m": size, "n": 64, "k": 64}}
        for size in (128, 64)
    ]
    points = plan_op(a_slice(sentinel=panel), GPU)
    assert [p.shape["m"] for p in points if is_sentinel(p)] == [64, 128]
    assert all(is_sentinel(p) and p.repeat == 1 for p in points[:2])
    assert len({p.point_id for p in points}) == len(points) == 8


def test_the_profiler_comes_last_because_it_may_slow_what_follows() -> None:
    protocols = [{"method": "profiler"}, {"method": "graph"}]
    sweeps = {"s": {"cubes": [64, 128, 256, 512], "protocols": protocols}}
    methods = [p.protocol.method for p in plan_op(a_slice(sweeps=sweeps), GPU)]
    assert methods == ["graph"] * 8 + ["profiler"] * 8


def test_tensor_parallelism_divides_the_axis_that_a_matrix_names() -> None:
    matrices = {shard: {"n": 80, "k": 40, "shard": shard} for shard in ("n", "k", "none")}
    model = LanguageModel.model_validate({"model": "x", "source": "y", "matrices": matrices})
    layers = {"models": ["x"], "tensor_parallel": [8], "tokens": [16]}
    assert sizes_of({"layers": layers}, x=model) == [(16, 10, 40), (16, 80, 5), (16, 80, 40)]


def test_tied_axes_of_a_grid_move_together() -> None:
    grid = {"m": [1, 2], "n,k": [[3, 4], [5, 6]]}
    assert sizes_of({"grid": grid}) == [(1, 3, 4), (1, 5, 6), (2, 3, 4), (2, 5, 6)]


@pytest.mark.parametrize("size", ["minute", "quick", "standard", "full"])
@pytest.mark.parametrize("backend", ["cuda", "cpu"])
def test_no_probe_has_the_shape_of_a_study_point(size: str, backend: str) -> None:
    study = load_study(ROOT / "config", {"study": size})
    device = environment_of("made-up" if backend == "cuda" else "cpu")
    shapes = {
        op: {
            tuple(point.shape.values())
            for point in plan_op(study.op_slice(op, backend), device)  # type: ignore[arg-type]
            if not is_sentinel(point)
        }
        for op in ("probe_math", "gemm")
    }
    # A fit needs 12 products; fp8 ones on a GPU have rows of whole 16 bytes.
    aligned = [shape for shape in shapes["probe_math"] if not any(n % 16 for n in shape[1:])]
    assert len(aligned) >= 12
    assert not shapes["probe_math"] & shapes["gemm"]


@pytest.mark.parametrize(("backend", "size"), [("cuda", "standard"), ("cpu", "quick")])
def test_accuracy_is_planned_for_every_recipe_and_distribution(backend: str, size: str) -> None:
    study = load_study(ROOT / "config", {"study": size})
    vendor = "cpu" if backend == "cpu" else "nvidia"
    points = plan_op(study.op_slice("linear", backend), replace(GPU, vendor=vendor))  # type: ignore[arg-type]
    accuracy = [p for p in points if p.protocol.method == "accuracy"]
    pairs = {(p.recipe, p.protocol.distribution) for p in accuracy}
    kinds = ("normal", "outlier_channels", "heavy_tails", "all_positive")
    assert pairs >= set(product(BY_NAME["linear"].recipes, kinds))
    assert len(accuracy) <= 60
    long = [p for p in accuracy if p.protocol.distribution == "all_positive"]
    assert max(p.shape["k"] for p in long) == 16384
    axes = {axis for p in long for axis, n in p.shape.items() if n == 16384 and "two" in p.recipe}
    assert axes == (set("mnk") if backend == "cuda" else set())


def test_random_shapes_keep_their_bounds_and_stay_as_they_are() -> None:
    spec = {"count": 50, "seed": 1, "low": 128, "high": 4096, "max_flops": 1e10,
            "skinny_fraction": 0.5, "skinny_max": 16}  # fmt: skip
    shapes = sizes_of({"log_uniform": spec})
    assert shapes == sizes_of({"log_uniform": spec})
    assert len(shapes) == 50
    assert all(2 * m * n * k <= 1e10 and n % 64 == 0 for m, n, k in shapes)
    assert 10 < sum(m <= 16 for m, _, _ in shapes) < 40


def test_a_shape_that_cannot_fit_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("m,n,k\n64,64,64\n400000,400000,400000\n")
    with pytest.raises(PlanError, match=r"s\.csv:3: .*the device has 80 GiB"):
        plan_op(a_slice(sweeps={"csv": {"csv": str(path)}}), GPU)


SENTINEL = {"provider": "cublaslt", "recipe": "bf16", "shape": {"m": 8, "n": 8}}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sweeps": {}}, "gemm: nothing to measure on cuda"),
        ({"sentinel": [SENTINEL]}, "the shape of a sentinel has no k"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        plan_op(a_slice(**changes), GPU)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Op gemm as one whose rows several devices share out."""
    monkeypatch.setitem(BY_NAME, "gemm", replace(GEMM, shared_axis="m"))


@pytest.mark.usefixtures("shared")
def test_points_on_equally_many_devices_follow_each_other() -> None:
    sweeps = {"s": {"cubes": [64, 128, 256, 512], "world_sizes": [4, 2, 8]}}
    points = plan_op(a_slice(sweeps=sweeps), GPU)
    assert [p.world_size for p in points] == [2] * 8 + [4] * 8 + [8] * 8
    assert len({p.point_id for p in points}) == len(points)
    groups = [list(members) for _, members in groupby(points, key=lambda p: p.group_key)]
    assert {len(group) for group in groups} == {2}


@pytest.mark.usefixtures("shared")
def test_rows_that_devices_cannot_share_out_are_refused_with_sweep_and_shape() -> None:
    sweeps = {"mine": {"shapes": [[64, 8, 8], [100, 16, 32]], "world_sizes": [2, 8]}}
    with pytest.raises(PlanError) as caught:
        plan_op(a_slice(sweeps=sweeps), GPU)
    assert str(caught.value) == (
        "config/sweeps/gemm.yaml: sweeps.mine: m=100 of the shape {'m': 100, 'n': 16, 'k': 32} is "
        "no multiple of world size 8, and its devices share it out evenly; give multiples of 8, or "
        "other world_sizes"
    )
