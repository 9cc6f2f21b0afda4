"""What models of time know of the link, at the ends of intervals too."""

import pytest

from roofcal.models.registry import MODELS
from roofcal.ops.probe_link.model import NO_LINK, Fabrics, calibrated_world_sizes
from roofcal.ops.time_models import KnowsLinks, Sources
from tests.roofcal.models.links import LINES, LINKED, linked
from tests.roofcal.models.runs import calibration


def fabrics_of(name: str, sources: Sources, world_size: int) -> Fabrics | None:
    model = MODELS[name]
    return model.fabrics(sources, world_size) if isinstance(model, KnowsLinks) else None


def test_fast_ends_have_the_least_latency_and_the_highest_rate() -> None:
    fabrics = fabrics_of("calibrated", LINKED, 8)
    assert fabrics is not None
    assert fabrics.fast is not None
    assert fabrics.slow is not None
    pairs = [(f.library.latency_s, f.library.bytes_per_s) for f in (fabrics.fast, fabrics.slow)]
    assert pairs[0] == pytest.approx((27e-6, 275e9))
    assert pairs[1] == pytest.approx((33e-6, 225e9))
    assert fabrics.slow.copy_latency_s == pytest.approx(5.5e-6)
    assert fabrics.likely.direct is not None
    assert fabrics.likely.direct.bytes_per_s == 400e9
    rates = [f.dram_bytes_per_s for f in (fabrics.slow, fabrics.likely, fabrics.fast)]
    assert rates == [3.9e12, 4e12, 4.1e12]


def test_copies_and_direct_gathers_are_known_together_or_not_at_all() -> None:
    fabrics = fabrics_of("calibrated", linked("all_gather", "all_gather_symm_mem"), 2)
    assert fabrics is not None
    assert fabrics.likely.direct is None


@pytest.mark.parametrize("model", ["calibrated", "wave", "torchao", "datasheet"])
def test_without_sources_or_a_link_nothing_is_known(model: str) -> None:
    assert fabrics_of(model, Sources(), 2) is None
    assert fabrics_of(model, Sources(calibration=calibration()), 2) is None


def test_world_sizes_are_those_of_the_all_gather() -> None:
    assert LINKED.calibration is not None
    assert calibrated_world_sizes(LINKED.calibration, "all_gather") == [2, 8]
    only = linked("send").calibration
    assert only is not None
    assert calibrated_world_sizes(only, "all_gather") == []
    assert set(LINES) > {"send"}


def test_no_link_takes_no_time() -> None:
    assert NO_LINK.likely.library.latency_s == 0
    assert 1 / NO_LINK.likely.library.bytes_per_s == 0
