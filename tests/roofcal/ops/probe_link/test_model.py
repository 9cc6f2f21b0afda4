"""How often bytes pass a link, and what models of time know of it, at the ends of intervals too."""

import pytest

from roofcal.models.registry import MODELS
from roofcal.ops.probe_link.model import (
    COLLECTIVES,
    calibrated_world_sizes,
    share,
)
from roofcal.ops.time_models import Sources, fabrics_of
from tests.roofcal.models.links import LINKED, linked
from tests.roofcal.models.runs import calibration


@pytest.mark.parametrize(
    ("collective", "world_size", "passes"),
    [
        ("all_gather", 2, 0.5),
        ("reduce_scatter", 4, 0.75),
        ("all_reduce", 4, 1.5),
        ("all_reduce", 8, 1.75),
        ("send", 8, 1.0),
    ],
)
def test_bytes_pass_a_link_as_a_ring_sends_them(
    collective: str, world_size: int, passes: float
) -> None:
    assert share(collective, world_size) == passes
    assert collective in COLLECTIVES.values()
    with pytest.raises(KeyError):
        share("broadcast", 2)


def test_fast_ends_have_the_least_latency_and_the_highest_rate() -> None:
    fabrics = fabrics_of(MODELS["calibrated"], LINKED, 8)
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
    sources = linked("all_gather", "all_gather_symm_mem")
    fabrics = fabrics_of(MODELS["calibrated"], sources, 2)
    assert fabrics is not None
    assert fabrics.likely.direct is None


@pytest.mark.parametrize("model", ["calibrated", "wave", "torchao", "datasheet"])
def test_without_sources_or_a_link_nothing_is_known(model: str) -> None:
    for sources in (Sources(), Sources(calibration=calibration())):
        assert fabrics_of(MODELS[model], sources, 2) is None


def test_world_sizes_are_those_of_the_all_gather() -> None:
    for sources, sizes in ((LINKED, [2, 8]), (linked("send"), [])):
        assert sources.calibration is not None
        assert calibrated_world_sizes(sources.calibration, "all_gather") == sizes
