"""The descriptor of a matrix, and the key of configurations in Triton's cache on disk.

The order of tiles is tested through the products.
"""

import inspect
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.compiler.compiler import ASTSource

from kernels.common.tiles import KernelConstants, tile_descriptor


@dataclass(frozen=True, slots=True)
class Tile(KernelConstants):
    warps: int

    @property
    def rows(self) -> int:
        return 32 * self.warps


def key_on_disk(constant: Any) -> str:
    """The key of a kernel that is compiled for this constant."""
    kernel = SimpleNamespace(__name__="kernel", cache_key="source", arg_names=["CONFIG"])
    return str(ASTSource(kernel, {"CONFIG": "constexpr"}, {"CONFIG": constant}).hash())


def test_a_kernel_is_compiled_again_for_other_values_alone() -> None:
    assert key_on_disk(Tile(4)) == key_on_disk(Tile(4))
    assert key_on_disk(Tile(4)) != key_on_disk(Tile(8))


def test_a_kernel_is_compiled_again_after_a_property_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = key_on_disk(Tile(4))
    assert "return 32 * self.warps" in Tile(4).cache_key
    changed = Tile(4).cache_key.partition("\n")[2].replace("32", "64")
    monkeypatch.setattr(inspect, "getsource", lambda _: changed)
    assert key_on_disk(Tile(4)) != before


def test_the_stride_of_a_single_row_means_nothing(device: torch.device) -> None:
    row = torch.zeros(5, 40, device=device).to(torch.float8_e4m3fn)[:1, :32]
    assert tile_descriptor(row, [16, 16]).strides == [32, 1]
