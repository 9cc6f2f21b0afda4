"""`predict --symbolic`: expressions a person can copy, and what does not go together."""

import pytest
import sympy

from roofcal.cli.main import main
from roofcal.models import torchao_formulas as formulas
from roofcal.models.torchao import SETS

H100 = SETS["torchao-2025"]["nvidia-h100-sxm"]
B300 = SETS["torchao-0.18.0"]["nvidia-b300"]
SIZES = (4096, 14336, 1000)
ASKED = ["predict", "--model", "torchao", "--symbolic"]


def seconds(text: str) -> float:
    m, k, n = sympy.symbols("M K N", integer=True, positive=True)
    expression = sympy.sympify(text, locals={"M": m, "K": k, "N": n})
    return float(expression.subs(dict(zip((m, k, n), SIZES, strict=True))))


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("arguments", "expected", "origin"),
    [
        (
            ["--device", "nvidia-h100-sxm", "--recipe", "tensorwise"],
            formulas.product_expression(H100, "tensorwise"),
            "torchao-2025 of nvidia-h100-sxm",
        ),
        (
            ["--device", "nvidia-h100-sxm", "--recipe", "rowwise", "--linear", "--fused"],
            formulas.linear_expression(H100, "rowwise", fused=True),
            "torchao-2025 of nvidia-h100-sxm",
        ),
        (
            ["--device", "nvidia-b300", "--recipe", "blockwise", "--role", "weight"],
            formulas.cast_expression(B300, "blockwise", "weight", fused=False),
            "torchao-0.18.0 of nvidia-b300",
        ),
        (
            ["--device", "nvidia-b300", "--recipe", "nvfp4_static", "--inference"],
            formulas.inference_expression(B300, "nvfp4_static"),
            "torchao-0.18.0 of nvidia-b300",
        ),
    ],
)
def test_what_is_printed_is_the_formula(
    arguments: list[str], expected: sympy.Expr, origin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ASKED, *arguments]) == 0
    said = capsys.readouterr()
    assert seconds(said.out) == pytest.approx(formulas.evaluate(expected, *SIZES), rel=1e-12)
    assert said.err == f"from: constants {origin}\n"


@pytest.mark.usefixtures("checkout")
def test_with_sizes_its_value_follows(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--device", "nvidia-h200", "--recipe", "bf16", "--m", "8192", "--k", "8192"]
    assert main([*ASKED, *asked, "--n", "8192"]) == 0
    said = capsys.readouterr()
    expected = 2 * 8192**3 / 989.5e12 / 0.78
    value, unit, where = said.out.splitlines()[1].split(" ", 2)
    assert float(value) == pytest.approx(expected, rel=1e-3)
    assert (unit, where) == ("s", "at M=8192, K=8192, N=8192")
    assert said.err == "from: constants datasheet of nvidia-h200\n"


SYMBOLIC = ["--model", "torchao", "--symbolic"]


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--linear"], "--linear needs --symbolic"),
        (["--constants", "torchao-2025"], "--constants needs --symbolic"),
        (["--symbolic"], "model calibrated has no expression: use --model torchao"),
        ([*SYMBOLIC, "--op", "cast"], "--op does not go with --symbolic"),
        ([*SYMBOLIC, "--points", "x.csv"], "--points does not go with --symbolic"),
        ([*SYMBOLIC, "--run", "x"], "--run does not go with --symbolic"),
        ([*SYMBOLIC, "--rows", "4"], "--rows does not go with --symbolic"),
        ([*SYMBOLIC, "--kv-heads", "4"], "--kv-heads does not go with --symbolic"),
        ([*SYMBOLIC, "--linear", "--role", "input"], "not --role too"),
        ([*SYMBOLIC, "--inference", "--fused"], "--fused needs --linear or --role"),
        ([*SYMBOLIC, "--m", "4"], "needs --k --n too"),
        ([*SYMBOLIC, "--recipe", "fp8_tensorwise"], "did you mean 'tensorwise'? known: bf16, bl"),
        ([*SYMBOLIC, "--role", "x", "--recipe", "rowwise"], "known: grad_output, input, weight"),
        ([*SYMBOLIC, "--constants", "x"], "known: datasheet, torchao-0.18.0, torchao-2025"),
    ],
)
def test_a_mistake_is_one_message(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "--device", "nvidia-h100-sxm", *arguments]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert says in message
    assert message.count("\n") == 1


@pytest.mark.usefixtures("checkout")
def test_an_unknown_device_lists_torchaos(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--device", "nvidia-b400"]) == 2
    assert "torchao lists amd-mi300x, nvidia-b200, nvidia-b300" in capsys.readouterr().err


@pytest.mark.usefixtures("checkout")
def test_symbolic_needs_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ASKED) == 2
    assert "needs --device" in capsys.readouterr().err
