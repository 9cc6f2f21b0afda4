"""How often bytes pass a link."""

import pytest

from roofcal.ops.probe_link.model import share


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


def test_an_unknown_collective_is_an_error() -> None:
    with pytest.raises(KeyError):
        share("broadcast", 2)
