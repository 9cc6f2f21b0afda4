"""A seed draws layers that no study lists, and equal seeds draw equal points."""

from pathlib import Path

import pytest

from roofcal.core.yaml_files import ConfigError
from roofcal.judge.layers import JUDGED_OPS, ON_GPU, unlisted_layers, unlisted_points
from roofcal.ops import BY_NAME

DEVICE = "nvidia-h100-sxm"


def test_equal_seeds_draw_equal_points_and_others_draw_others() -> None:
    first, again, other = (unlisted_points(seed, DEVICE) for seed in (5, 5, 6))
    assert first == again
    assert set(first) == set(other) == set(JUDGED_OPS)
    for op, points in first.items():
        ids = {point.point_id for point in points}
        assert len(ids) == len(points)
        assert len(ids & {point.point_id for point in other[op]}) < len(ids) / 4


def test_points_are_alone_of_as_many_shapes_as_are_asked_and_can_be_measured() -> None:
    points = unlisted_points(5, DEVICE)
    for op in JUDGED_OPS:
        shapes = {str(dict(point.shape)) for point in points[op]}
        assert len(shapes) <= sum(c.shapes for c in ON_GPU if c.op == op)
        assert len(shapes) >= max(c.shapes for c in ON_GPU if c.op == op)
        for point in points[op]:
            assert point.protocol.method == "alone"
            assert BY_NAME[op].takes(point.provider, point.recipe, point.shape)


def test_a_layer_that_a_study_may_measure_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "layers.yaml"
    file.write_text(
        "llama-again:\n"
        "  down: {n: 8192, k: 28672, shard: k}\n"  # of llama3-70b, halved too
        "  mine: {n: 4112, k: 96, shard: n}\n"  # halved, 2056 is no multiple of 16
    )
    assert unlisted_layers(file) == {(4112, 96)}


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "layers.yaml"
    file.write_text("mine: {up: {n: many, k: 64, shard: n}}\n")
    with pytest.raises(ConfigError, match=r"layers\.yaml"):
        unlisted_layers(file)
