"""The matrix product as an op."""

from roofcal.ops.gemm.spec import OP


def test_work_and_regime_take_the_axes_by_name() -> None:
    assert OP.work("bf16", {"k": 5, "n": 3, "m": 2}).flops == 60
    assert OP.regime({"m": 1, "n": 4096, "k": 4096}) == "decode"


def test_a_layers_tokens_are_the_rows_of_a() -> None:
    assert OP.layer_shape is not None
    assert OP.layer_shape(16, 4096, 8192) == {"m": 16, "n": 4096, "k": 8192}
