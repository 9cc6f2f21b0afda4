"""roofcal.predict, advise, breakeven, llm, load and devices."""

import doctest
import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import roofcal
from roofcal.cli.main import main
from roofcal.core.records import TIMELESS
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME
from tests.paths import ROOT

SHAPE: dict[str, Any] = {"m": 4096, "n": 4096, "k": 4096}
WORDS = [word for axis, size in SHAPE.items() for word in (f"--{axis}", str(size))]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out.strip()


def test_it_says_what_the_commands_say(capsys: pytest.CaptureFixture[str]) -> None:
    point = ["--device", "nvidia-h200", *WORDS]
    time = roofcal.predict("h200", "gemm", "rowwise", **SHAPE)
    assert time.low_s is not None
    assert time.high_s is not None
    assert time.low_s < time.seconds < time.high_s
    assert time.flops_per_s == pytest.approx(2 * 4096**3 / time.seconds)
    assert str(time) == printed(capsys, "predict", *point, "--recipe", "fp8_axiswise")
    advice = roofcal.advise("h200", **SHAPE)
    assert str(advice) == printed(capsys, "advise", *point)
    assert json.loads(json.dumps(advice.answer)) == json.loads(
        printed(capsys, "advise", *point, "--json")
    )
    fp8 = roofcal.advise("h200", recipes=["fp8"], min_db=25.0, **SHAPE)
    assert str(fp8) == printed(capsys, "advise", *point, "--recipes", "fp8", "--min-db", "25")
    break_even = roofcal.breakeven("h200", "rowwise", n=4096, k=4096)
    assert " from M = 560 on (95 %: that M lies from 1 to 656)" in str(break_even)
    linear = ["4096x4096", "--device", "h200", "--recipe", "rowwise"]
    assert str(break_even) == printed(capsys, "breakeven", *linear)
    assert break_even.answer == json.loads(printed(capsys, "breakeven", *linear, "--json"))


def test_sizes_may_come_from_numpy() -> None:
    sizes: dict[str, Any] = {axis: np.int64(size) for axis, size in SHAPE.items()}
    assert roofcal.predict("h200", **sizes) == roofcal.predict("h200", **SHAPE)


def test_the_best_option_is_the_fastest_of_the_frame() -> None:
    advice = roofcal.advise("h200", passes="forward_backward", **SHAPE)
    frame = advice.frame()
    assert advice.best.seconds == frame["seconds"].min()
    # What a poor record takes from the fastest is given to no other.
    assert (frame["probability"] <= frame["recipe_probability"] + 1e-9).all()
    assert frame["probability"].sum() <= 1.01
    of_products = roofcal.advise("h200", **SHAPE)
    assert of_products.decision.weak_because == ()
    assert of_products.frame()["probability"].sum() == pytest.approx(1, abs=0.01)


def test_every_device_of_the_configuration_is_listed() -> None:
    listed = roofcal.devices()
    assert listed["nvidia-b200"] == ()
    (environment,) = listed["nvidia-h200"]
    assert environment == roofcal.load("h200").environment


def test_the_frames_hold_every_point_once_and_join() -> None:
    frames = roofcal.load("h200")
    points = frames.measurements
    assert set(points["op"]) <= set(BY_NAME)
    sentinels = points["sweeps"].str.contains("sentinel")  # several times in a session
    assert points.loc[~sentinels, "point_id"].is_unique
    assert len(points) == sum(len(frames.table(op)) for op in set(points["op"]))
    predictions = frames.predictions
    assert {"calibrated", "torchao", "datasheet"} <= set(predictions["model"])
    own = predictions[(predictions["model"] == "calibrated") & (predictions["op"] == "gemm")]
    cold = own[own["status"] == "ok"]
    assert cold["relative_error"].abs().median() < 0.1
    assert not set(predictions["status"]) & TIMELESS
    assert {"name", "value", "ci95_low", "ci95_high", "unit"} <= set(frames.constants)
    assert "mape" in frames.errors


def test_an_unknown_table_is_answered_with_those_there_are() -> None:
    with pytest.raises(PredictError, match=r"has no table 'speed'; there are .*speedups"):
        roofcal.load("h200").table("speed")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: roofcal.predict("h200", m=1), "has the axes m, n, k; got m"),
        (lambda: roofcal.predict("h200", by="w", **SHAPE), "unknown model 'w'"),
        (lambda: roofcal.advise("h200", **SHAPE | {"passes": "back"}), "passes: 'back'"),
        (lambda: roofcal.advise("h200", **SHAPE | {"weights": "x"}), "weights: 'x'"),
        (lambda: roofcal.load("b200"), "no calibration of device 'nvidia-b200'"),
    ],
)
def test_a_mistake_is_a_message_with_the_way_out(call: Callable[[], object], says: str) -> None:
    with pytest.raises(PredictError, match=says):
        call()


NO_SIZES = [True, np.True_, 0, -1, 64.0, np.float64(64), float("nan"), "64", None, 1 << 31]
ASKED: dict[str, Callable[[Any], object]] = {
    "m": lambda size: roofcal.predict("h200", **SHAPE | {"m": size}),
    "world_size": lambda size: roofcal.predict("h200", world_size=size, **SHAPE),
    "k": lambda size: roofcal.advise("h200", **SHAPE | {"k": size}),
    "n": lambda size: roofcal.breakeven("h200", "rowwise", n=size, k=4096),
    "batch": lambda size: roofcal.llm("h200", "llama3-8b", batch=size),
    "tp": lambda size: roofcal.llm("h200", "llama3-8b", tp=size, pp=1),
}


@pytest.mark.parametrize(
    ("name", "size"),
    [*(("m", size) for size in NO_SIZES), *((name, 1.5) for name in ASKED)],
    ids=repr,
)
def test_what_is_no_size_is_refused_by_its_name(name: str, size: Any) -> None:
    says = re.escape(f"{name}={size!r} is not a whole number from 1 to 2^30")
    with pytest.raises(PredictError, match=f"^{says}$"):
        ASKED[name](size)


def test_questions_about_models_refuse_what_they_do_not_take() -> None:
    ask: Any = roofcal.llm_sweep
    with pytest.raises(TypeError, match=r"llm_sweep\(\) got an unexpected .* 'batch'"):
        ask("h200", "llama3-8b", batch=64)
    for rate in (-3.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"min_rate: got .* above 0"):
            ask("h200", "llama3-8b", min_rate=rate)
    with pytest.raises(PredictError, match=r"no cut of one GPU gives a request 1e\+09 tokens/s"):
        ask("h200", "llama3-8b", gpus=1, min_rate=1e9)


def test_of_several_devices_the_measured_one_answers_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="'h100' is taken as nvidia-h100-sxm") as caught:
        assert roofcal.predict("h100", **SHAPE).device == "nvidia-h100-sxm"
    assert [warning.filename for warning in caught] == [__file__]


def test_an_attribute_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'predikt'"):
        _ = roofcal.predikt  # type: ignore[attr-defined]
    assert "predict" in dir(roofcal)


def test_the_examples_of_the_page_about_the_package_are_true() -> None:
    failures, tried = doctest.testfile(str(ROOT / "docs/package.md"), module_relative=False)
    assert (failures, tried > 5) == (0, True)
