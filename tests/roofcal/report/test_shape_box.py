"""The shape box says in a browser what Python says: times, intervals, limits, nearest points."""

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofcal.ask.advice import decided_advice
from roofcal.ask.advise import Adviser
from roofcal.ask.measured import by_key
from roofcal.ask.measured import measured_points as points_of_run
from roofcal.ask.shape_limits import beyond_probes, memory_refusal, refusal
from roofcal.core.devices import DeviceSpec, load_device
from roofcal.core.paths import RunFolder
from roofcal.core.records import Calibration, PlanPoint
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.models.registry import predict_points
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.cast import model as cast
from roofcal.ops.gemm import model as gemm
from roofcal.ops.gemm import tiles
from roofcal.ops.linear.model import CASTS
from roofcal.ops.mixed_gemm import model as mixed_gemm
from roofcal.ops.time_models import Sources
from roofcal.points.run import load_run
from roofcal.report import shape_box
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.templates import FOLDER, packed_json, render
from roofcal.report.shape_box import ShapeBox, measured_points
from tests.browser import Browser
from tests.paths import ROOT

PUBLISHED = next((ROOT / "reports/published/nvidia-h200").glob("*/environment.jsonl")).parent


@cache
def spec_of(device: str) -> DeviceSpec:
    return load_device(ROOT / f"config/devices/{device}.yaml")


def published_analysis(device: str) -> Analysis:
    """The products and casts of a published card, those of its probes too."""
    folder = next((ROOT / "reports/published" / device).glob("*/environment.jsonl")).parent
    run = load_run(folder)
    frames = {op.name: run.points(op.name).table for op in OPS if op.computes}
    return Analysis(run=run, spec=spec_of(device), frames=frames, sessions={})


@pytest.fixture(scope="module")
def products() -> Analysis:
    return published_analysis("nvidia-h200")


@pytest.fixture(scope="module")
def published(products: Analysis) -> dict[str, Any]:
    """What the page has of it, of measured points those of its study alone."""
    frames = {op: products.frames[op] for op in ("gemm", "mixed_gemm", "cast", "probe_cast")}
    data = ShapeBox(replace(products, frames=frames)).data("h200")
    assert data is not None
    return data


# Constants of families that no published card has, such as those of processors.
MADE_UP = {
    "s": 2e-6, "B/s": 4e12, "flop/s": 6e14, "1/s": 8e12, "flop/s per compute unit": 7e12,
    "B/s per compute unit": 1e11, "s/B": 1e-9, "1": 1.2, "B": 4e6,
}  # fmt: skip


def with_every_family(calibration: Calibration) -> Calibration:
    """A calibration that has every family of the equations, those of processors too."""
    known, errors = dict(calibration.constants), dict(calibration.probe_errors)
    spans = dict(calibration.probe_spans)
    # linears ask for casts by their names, and for products by any name
    casts = product(CASTS[1:], ("fp8_tensorwise", "fp8_rowwise_dim0", "fp8_blockwise_1x128"))
    made_up = [
        *((gemm, f"by_{family}", "bf16", "cublaslt", family) for family in tiles.FAMILIES),
        *((gemm, f"by_{family}", "fp8_tensorwise", "triton", family) for family in tiles.FAMILIES),
        *((mixed_gemm, f"by_{family}", "int4_groupwise_g64_asymmetric", "triton", family)
          for family in mixed_gemm.FAMILIES),
        *((cast, *pair, "triton", family)
          for pair, family in zip(casts, cast.FAMILIES, strict=True)),
    ]  # fmt: skip
    for model, provider, recipe, like, family in made_up:
        op, families = model.OP.name, dict[str, Any](model.FAMILIES)
        name = f"{op}.{provider}.{recipe}"
        errors[name], spans[name] = errors[f"{op}.{like}.{recipe}"], spans[f"{op}.{like}.{recipe}"]
        values = {model.FAMILY: float([*families].index(family))}
        for constant in getattr(families[family], "constants", None) or model.CONSTANTS:
            values[constant] = MADE_UP[model.CONSTANTS[constant].unit]
        for constant, value in values.items():
            known[f"{name}.{constant}"] = replace(known["compute_units"], value=value)
    return replace(calibration, constants=known, probe_errors=errors, probe_spans=spans)


@pytest.fixture
def ask(chromium: Browser, tmp_path: Path) -> Callable[[str], Any]:
    """What an expression of JavaScript is on a page with the model alone."""
    page = tmp_path / "page.html"
    model = (FOLDER / "product_model.js").read_text(encoding="utf-8")
    page.write_text(f"<!doctype html><script>{model}</script>")
    chromium.open(page)
    return chromium.run


def random_shapes(count: int) -> list[dict[str, int]]:
    """Log-uniform sizes: a third in steps of 128, a third of 8, a third of 1, some far outside."""
    source = random.Random(18)
    shapes = []
    for number in range(count):
        step = (128, 8, 1)[number % 3]
        sizes = (round(2 ** source.uniform(0, 17) / step) * step or step for _ in range(3))
        shapes.append(dict(zip("mnk", sizes, strict=True)))
    return shapes


@pytest.mark.parametrize("example", [1, 37, 130_000])
def test_no_size_of_the_traced_example_is_left_in_the_steps(
    products: Analysis, monkeypatch: pytest.MonkeyPatch, example: int
) -> None:
    calibration = products.run.calibration
    assert calibration is not None
    run = replace(products.run, calibration=with_every_family(calibration))
    analysis = replace(products, run=run)
    usual = ShapeBox(analysis).data("box")
    monkeypatch.setattr(shape_box, "_EXAMPLE", example)
    assert ShapeBox(analysis).data("box") == usual


def test_a_step_of_the_page_does_what_numpy_does(ask: Callable[[str], Any]) -> None:
    numbers = [-2.5, -1.0, 0.0, 0.5, 1.0, 2.5, 3.5, 8.0]
    conditions = ("bitwise_and", "bitwise_or", "invert")
    of_one = ("negative", "ceil", "floor", "rint", "trunc")
    of_two = ("add", "subtract", "multiply", "minimum", "maximum", "floor_divide", "remainder",
              "less", "less_equal", "greater", "greater_equal", "equal", "not_equal")  # fmt: skip
    wanted: list[tuple[str, list[Any], Any]] = []
    for name in (*conditions, *of_one, *of_two):
        ufunc = getattr(np, name)
        wanted += [
            (name, list(values), ufunc(*values).item())
            for values in product(
                [False, True] if name in conditions else numbers, repeat=ufunc.nin
            )
            if not (name in ("floor_divide", "remainder") and values[1] == 0)
        ]
    for number in numbers[2:]:
        mantissa, exponent = np.frexp(number)
        wanted += [("mantissa", [number], mantissa.item()), ("exponent", [number], exponent.item())]
        wanted += [("sqrt", [number], float(np.sqrt(number)))]
    wanted += [("equal", [True, 1.0], True), ("gcd", [12, 18], 6), ("ldexp", [0.75, 3], 6.0)]
    steps = [
        {"constants": inputs, "steps": [[name, *range(len(inputs))]]} for name, inputs, _ in wanted
    ]
    done = ask(
        f"{json.dumps(steps)}.map((equations) => "
        "productModel.evaluatorAt({equations}, {m: 1, n: 1, k: 1})(equations.constants.length))"
    )
    assert done == [result for *_, result in wanted]


@pytest.mark.parametrize("device", ["nvidia-h200", "nvidia-h100-sxm", "every family"])
def test_the_page_predicts_what_python_predicts(ask: Callable[[str], Any], device: str) -> None:
    analysis = published_analysis("nvidia-h200" if device == "every family" else device)
    calibration = analysis.run.calibration
    assert calibration is not None
    if device == "every family":
        calibration = with_every_family(calibration)
        analysis = replace(analysis, run=replace(analysis.run, calibration=calibration))
    data = ShapeBox(analysis).data("box")
    assert data is not None
    options = [*data["options"], *data["casts"]]
    if device == "every family":
        assert len(data["casts"]) == len(cast.FAMILIES)
    shapes = [*random_shapes(120), *(dict.fromkeys("mnk", side) for side in (1, 17, 1 << 30))]
    in_page = ask(
        f"""(() => {{
          const device = {json.dumps(data)};
          return {json.dumps(shapes)}.map((shape) => {{
            const at = productModel.evaluatorAt(device, shape);
            return [...device.options, ...device.casts].map((option) => {{
              const own = option.op === "cast" ? {{ rows: shape.m, cols: shape.k }} : shape;
              const answer = productModel.predict(option, at);
              return [productModel.refusal(option, own), productModel.memoryRefusal(option, own, at, device),
                answer.boundBy, Boolean(answer.unprobed), answer.total, answer.low, answer.high, answer.doublings];
            }});
          }});
        }})()"""  # noqa: E501
    )
    kinds = set()
    for place, option in enumerate(options):
        op, provider, recipe = BY_NAME[option["op"]], option["provider"], option["recipe"]
        sides = "mk" if op.computes == "cast" else "mnk"
        points = [
            PlanPoint(op=op.name, provider=provider, recipe=recipe, shape=own, device="")
            for shape in shapes
            for own in (dict(zip(op.axes, (shape[side] for side in sides), strict=True)),)
        ]
        answers = predict_points(calibrated, points, Sources(calibration=calibration))
        by_id = {answer.point_id: answer for answer in answers}
        for of_shape, point in zip(in_page, points, strict=True):
            refused, too_large, bound_by, is_unprobed, *seconds = of_shape[place]
            assert refused == refusal(op, provider, recipe, point.shape)
            assert too_large == memory_refusal(point, analysis.spec)
            if refused is None:
                answer = by_id[point.point_id]
                doublings, unprobed = beyond_probes(calibration, point)
                python = [answer.total_s, answer.low_s, answer.high_s, doublings]
                assert seconds == pytest.approx(python, rel=1e-9, abs=0), point
                assert (bound_by, is_unprobed) == (answer.bound_by, bool(unprobed)), point
                kinds.add((bound_by, is_unprobed, bool(doublings)))
    assert len(kinds) > 12


def test_a_provider_for_larger_shapes_is_named_only_where_no_option_runs(
    ask: Callable[[str], Any], published: dict[str, Any]
) -> None:
    def said(m: int, *providers: str) -> dict[str, list[str]]:
        device = json.dumps(published), json.dumps(providers)
        answer: dict[str, list[str]] = ask(
            f"""(() => {{
              const device = {device[0]}, options = device.options.filter(({{ provider, recipe }}) =>
                recipe === "int4_groupwise_g128" && {device[1]}.includes(provider));
              const {{ ranked, refused }} = productModel.rank(device, {{ m: {m}, n: 4096, k: 4096 }}, false, options);
              return {{ ranked: ranked.map(({{ option }}) => option.provider).sort(), refused: refused.map(({{ reason }}) => reason) }};
            }})()"""  # noqa: E501
        )
        return answer

    both = ("triton", "triton_specialised")
    assert said(16, *both) == {"ranked": ["triton"], "refused": []}
    assert said(17, *both) == {"ranked": [*both], "refused": []}
    assert "with m of 17 and more, got 16" in said(16, both[1])["refused"][0]


def test_an_option_far_outside_of_its_probes_is_not_ranked(
    ask: Callable[[str], Any], published: dict[str, Any]
) -> None:
    shape = "{ m: 16384, n: 4096, k: 4096 }"
    far = ask(f"productModel.rank({json.dumps(published)}, {shape}, true).refused")
    assert any("doublings outside the probed range" in one["reason"] for one in far)


def test_the_first_shape_is_the_largest_that_the_probes_of_the_device_span(
    published: dict[str, Any], bare_analysis: Analysis
) -> None:
    bare = ShapeBox(bare_analysis)
    assert (bare.data("cpu"), bare.decision) == (None, None), "it is not calibrated"
    layer = {"m": 4096, "n": 28672, "k": 8192}
    assert published["first_shape"] == layer
    run = load_run(PUBLISHED)
    assert run.calibration is not None
    cube = dict.fromkeys("mnk", 512)
    for most, shape in ((700.0, cube), (10.0, layer)):  # as of a processor; of nothing
        span = dict.fromkeys("mnk", (1.0, most))
        spans = {f"gemm.{provider}.bf16": span for provider in ("cublaslt", "triton")}
        small = replace(run.calibration, probe_spans=spans)
        own = Analysis(run=replace(run, calibration=small), spec=None, frames={}, sessions={})
        assert ShapeBox(own).first_shape == shape


def test_products_without_casts_and_bf16_are_shown_alone() -> None:
    run = load_run(PUBLISHED)
    assert run.calibration is not None
    kept = {
        name: constant
        for name, constant in run.calibration.constants.items()
        if "." not in name or name.startswith("gemm.cublaslt.fp8_axiswise.")
    }
    narrow = replace(run, calibration=replace(run.calibration, constants=kept))
    box = ShapeBox(Analysis(run=narrow, spec=spec_of("nvidia-h200"), frames={}, sessions={}))
    data = box.data("h200")
    assert data is not None
    shown = [(option["recipe"], option["ways"]) for option in data["options"]]
    assert (shown, data["casts"], box.decision) == ([("fp8_axiswise", [])], [], None)


def test_a_calibration_that_lacks_a_constant_ranks_nothing_by_it(
    ask: Callable[[str], Any], products: Analysis
) -> None:
    assert products.run.calibration is not None
    constants = dict(products.run.calibration.constants)
    del constants["gemm.cublaslt.fp8_axiswise.launch_s"]
    calibration = replace(products.run.calibration, constants=constants)
    lacking = replace(products, run=replace(products.run, calibration=calibration))
    device = json.dumps(ShapeBox(lacking).data("h200"))
    answer = ask(f"productModel.rank({device}, {{ m: 4096, n: 4096, k: 4096 }}, false)")
    ranked = {(one["option"]["provider"], one["option"]["recipe"]) for one in answer["ranked"]}
    assert ("cublaslt", "fp8_axiswise") not in ranked
    assert ("cublaslt", "bf16") in ranked
    assert "the calibration of fp8_axiswise by cublaslt lacks a constant of its equation" in {
        one["reason"] for one in answer["refused"]
    }


def write_box(folder: Path, devices: list[dict[str, Any]]) -> Path:
    """The page with the shape box of some devices alone."""
    scripts = ("unpack.js", "product_model.js", "shape_box.js")
    texts = [(FOLDER / name).read_text(encoding="utf-8") for name in scripts]
    page = folder / "box.html"
    page.write_text(
        "<!doctype html><meta charset=utf-8>"
        + render("shape_box.html.j2", shape_box=packed_json(devices))
        + "".join(f"<script>{text}</script>" for text in texts),
        encoding="utf-8",
    )
    return page


Opened = Callable[[str], list[list[str]]]


@pytest.fixture
def box(chromium: Browser, published: dict[str, Any], tmp_path: Path) -> Opened:
    """The shape box of the published H200 alone, by the fragment of its address; its rows."""
    page = write_box(tmp_path, [published])

    def opened(fragment: str) -> list[list[str]]:
        chromium.open(page, fragment)
        return rows_of(chromium)

    return opened


SAID = "document.querySelector('#shape-box .said').textContent"


def rows_of(chromium: Browser) -> list[list[str]]:
    """The texts of the table, once there is one."""
    chromium.wait_for("document.querySelector('#shape-box tbody tr')")
    cells = "[...row.cells].map((cell) => cell.textContent)"
    rows: list[list[str]] = chromium.run(
        f"[...document.querySelectorAll('#shape-box tbody tr')].map((row) => {cells})"
    )
    return rows


def test_the_box_is_filled_by_keyboard_and_reopened_by_its_link(
    chromium: Browser, box: Opened
) -> None:
    box("")
    chromium.run("document.querySelector('#shape-box [name=m]').select()")
    chromium.run("document.querySelector('#shape-box [name=m]').focus()")
    for key in "8192":
        chromium.press(key)
    assert chromium.run("location.hash") == "#m=8192&n=28672&k=8192"
    chromium.press("Tab")
    assert chromium.run("document.activeElement.name") == "n"
    typed = rows_of(chromium)
    recipes = [row[1] for row in typed]
    assert len(set(recipes)) == len(recipes) > 4
    assert any(recipe.startswith("fp8") for recipe in recipes[:1])
    (bf16,) = [row for row in box("m=4096&n=4096&k=4096&op=gemm") if row[1] == "bf16"]
    assert bf16[-1].startswith("this product (predicted "), "the nearest measured point"

    rows = box("m=8192&n=28672&k=8192&op=gemm")
    assert [row[1:8] for row in rows[:3]] == [row[1:8] for row in typed[:3]]
    assert chromium.run("document.querySelector('#shape-box [name=op]').value") == "gemm"
    assert chromium.errors == []


def test_measured_points_are_those_that_predict_and_advise_count_in(products: Analysis) -> None:
    in_box, in_tables = (
        {
            key: (point.median_s, point.low_s, point.high_s, point.predicted_s)
            for key, point in points.items()
            if key[0] in ("product", "cast")
        }
        for points in (by_key(measured_points(products)), points_of_run(RunFolder.at(PUBLISHED)))
    )
    assert in_box == in_tables
    median_s = in_box["product", "cublaslt", "fp8_axiswise", 8192, 8192, 8192][0]
    assert f"{1e6 * median_s:.1f}" == "828.3", "of the row, which holds its sentinels"


def test_the_box_ranks_with_casts_as_advise_does(
    ask: Callable[[str], Any], products: Analysis
) -> None:
    device = ShapeBox(products).data("h200")
    measured = points_of_run(RunFolder.at(PUBLISHED))
    sources = Sources(calibration=products.run.calibration, spec=spec_of("nvidia-h200"))
    adviser = Adviser(calibrated, sources, "forward", "cached", measured)
    cubes = [dict.fromkeys("mnk", side) for side in (512, 4096, 8192)]
    layers = [{"m": m, "n": 3584, "k": 8192} for m in (1, 16, 512)]
    shapes = [*cubes, *layers, *random_shapes(60)]
    in_browser = ask(
        f"""{json.dumps(shapes)}.map((shape) =>
          productModel.rank({json.dumps(device)}, shape, true).ranked.map((one) => [
            one.option.recipe, one.option.provider, one.casts[0]?.provider ?? "none",
            one.isMeasured,
            one.total, one.low, one.high, one.predicted, one.doublings]))"""
    )
    sources_of_times = set()
    for answers, advice in zip(in_browser, adviser.advices(shapes), strict=True):
        options = [] if isinstance(advice, PredictError) else advice.options
        said = {tuple(one[:4]): pytest.approx(one[4:], rel=1e-5, abs=0) for one in answers}
        assert said == {
            (one.recipe, one.products_by, one.casts_by, one.source == "measured"): [
                one.seconds,
                one.low_s,
                one.high_s,
                one.predicted_s,
                one.extrapolated_doublings,
            ]
            for one in options
        }
        assert [one[4] for one in answers] == sorted(one[4] for one in answers)
        sources_of_times |= {one.source for one in options}
    assert {"measured", "predicted", "cast of x measured"} <= sources_of_times


def test_casts_are_counted_until_they_are_switched_off(chromium: Browser, box: Opened) -> None:
    with_casts = {row[1]: row for row in box("")}
    assert ", casts included; " in chromium.run(SAID)
    assert with_casts["fp8_tensorwise"][3] == "triton"
    assert with_casts["bf16"][3] == "none"
    chromium.run("document.querySelector('#shape-box [name=casts]').click()")
    assert ", casts not counted; " in chromium.run(SAID)
    assert chromium.run("location.hash") == "#m=4096&n=28672&k=8192&casts=0"
    alone = {row[1]: row for row in box("m=4096&n=28672&k=8192&casts=0")}
    assert not chromium.run("document.querySelector('#shape-box [name=casts]').checked")
    assert alone["fp8_tensorwise"][3] == "none"
    ratios = [float(rows["fp8_tensorwise"][6][:-1]) for rows in (with_casts, alone)]
    assert 1 < ratios[0] < ratios[1]


def test_a_time_that_was_measured_at_the_shape_stands_beside_its_prediction(
    chromium: Browser, box: Opened
) -> None:
    rows = box("m=16&n=3584&k=8192&op=mixed_gemm")
    assert rows[0][1:4] == ["int4_groupwise_g128", "triton_chained", "none"]
    times = [cell.replace("\u00a0", " ") for cell in rows[0][4:6]]
    assert times == ["8.38 \u00b5smeasured, predicted 7.66 \u00b5s", "8.31 \u00b5s to 8.45 \u00b5s"]
    assert "triton_chained: 8.38\u00a0\u00b5s, measured (95 %: " in chromium.run(SAID)


def test_a_shape_beyond_the_probes_is_called_extrapolated(chromium: Browser, box: Opened) -> None:
    assert "doublings: treat as a guess" in box("m=131072&n=131072&k=131072")[0][5]
    assert ", extrapolated" in chromium.run(SAID)
    # an op that lies farther outside than another is ranked when it is chosen
    first, *_ = box("m=4096&n=28672&k=8192&op=mixed_gemm")
    assert first[1].startswith(("int4", "fp8"))
    assert "extrapolated by" in first[5]
    assert first[6].endswith("\u00d7"), "the time over bf16 is there"
    assert ", extrapolated" in chromium.run(SAID)


def test_the_box_calls_a_toss_up_what_advise_calls_one(
    chromium: Browser, products: Analysis, tmp_path: Path
) -> None:
    page = write_box(tmp_path, [ShapeBox(products).data("h200") or {}])
    measured = points_of_run(RunFolder.at(PUBLISHED))
    sources = Sources(calibration=products.run.calibration, spec=spec_of("nvidia-h200"))
    adviser = Adviser(calibrated, sources, "forward", "cached", measured)
    layers = [{"m": m, "n": n, "k": 8192} for m in (1, 64, 1024) for n in (3584, 8192, 28672)]
    said = list[str]()
    for shape in [*layers, *random_shapes(9)]:
        chromium.open(page, "&".join(f"{axis}={size}" for axis, size in shape.items()))
        rows_of(chromium)
        verdict, *_ = decided_advice(adviser, shape)[1].sentences()
        in_page, in_answer = (
            re.findall(r"a toss-up with .* slower|the next, .* longer", text)
            for text in (chromium.run(SAID), verdict)
        )
        assert in_page == in_answer, shape
        said += in_page
    kinds = ("a toss-up with [^ ]*, [^a]", "a toss-up with .* at most", "the next")
    assert all(any(re.match(kind, words) for words in said) for kind in kinds), said


def test_a_time_has_three_digits_and_no_exponent(
    chromium: Browser, published: dict[str, Any], tmp_path: Path
) -> None:
    for seconds, text in (
        (9.997e-4, "1.00 ms"),
        (9.996e-7, "1.00 \u00b5s"),
        (8.4e-16, "0.000000840 ns"),
        (3.21e-5, "32.1 \u00b5s"),
    ):
        option = published["options"][0] | {
            "answer": dict.fromkeys(published["options"][0]["answer"], 0)
        }
        equations = {"constants": [seconds], "steps": []}
        nothing: dict[str, list[Any]] = {name: [] for name in published["measured"]}
        changes = {"options": [option], "equations": equations, "dram_bytes": None}
        page = write_box(tmp_path, [published | changes | {"measured": nothing}])
        chromium.open(page, "m=16&n=16&k=16&casts=0")
        assert rows_of(chromium)[0][4].replace("\u00a0", " ") == text


def test_a_link_for_a_device_that_is_not_there_says_so(chromium: Browser, box: Opened) -> None:
    box("m=4096&n=4096&k=4096&device=nvidia-h9000")
    assert chromium.run(SAID).startswith(
        "The link asks for what this page has not: no device \u201cnvidia-h9000\u201d here; "
        "this is for NVIDIA H200"
    )
    box("m=4096&n=4096&k=4096&device=h200")
    assert not chromium.run(SAID).startswith("The link asks")


def test_what_is_no_shape_is_refused_in_a_sentence(
    chromium: Browser, published: dict[str, Any], tmp_path: Path
) -> None:
    page = write_box(tmp_path, [published])
    for fragment, says in (
        ("m=0.5&n=4096&k=4096", "m = \u201c0.5\u201d is not a whole number from 1 to 2^30"),
        ("m=16&n=4096&k=%3Cimg%20src%3Dx%3E", "k = \u201c<img src=x>\u201d is not a whole"),
    ):
        chromium.open(page, fragment)
        chromium.wait_for(SAID)
        assert chromium.run(SAID).startswith(says)
    assert chromium.run("document.querySelectorAll('#shape-box img').length") == 0
