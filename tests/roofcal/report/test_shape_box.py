"""The shape box says in a browser what Python says: times, intervals, limits, nearest points."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofcal.api import advise
from roofcal.ask.advise import Adviser
from roofcal.ask.measured import by_key
from roofcal.ask.measured import measured_points as points_of_run
from roofcal.ask.shape_limits import beyond_probes, memory_refusal, refusal
from roofcal.core.devices import DeviceSpec, load_device
from roofcal.core.paths import RunFolder
from roofcal.core.records import PlanPoint
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.models.registry import predict_points
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.cast import model as cast
from roofcal.ops.gemm import model as gemm
from roofcal.ops.gemm.tiles import FAMILIES
from roofcal.ops.mixed_gemm import model as mixed_gemm
from roofcal.ops.time_models import Sources
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.templates import FOLDER, packed_json, render
from roofcal.report.shape_box import ShapeBox, cast_formats, family_record, measured_points
from tests.browser import Browser
from tests.paths import ROOT

PUBLISHED = next((ROOT / "reports/published/nvidia-h200").glob("*/environment.jsonl")).parent
ANSWER = ("boundBy", "unprobed", "total", "low", "high", "doublings")


@cache
def h200() -> DeviceSpec:
    return load_device(ROOT / "config/devices/nvidia-h200.yaml")


@pytest.fixture(scope="module")
def products() -> Analysis:
    """The products and casts of the published H200, those of its probes too."""
    run = load_run(PUBLISHED)
    frames = {op.name: run.points(op.name).table for op in OPS if op.computes}
    return Analysis(run=run, spec=h200(), frames=frames, sessions={})


@pytest.fixture(scope="module")
def published(products: Analysis) -> dict[str, Any]:
    """What the page has of it, of measured points those of its study alone."""
    frames = {op: products.frames[op] for op in ("gemm", "mixed_gemm", "cast", "probe_cast")}
    data = ShapeBox(replace(products, frames=frames)).data("h200")
    assert data is not None
    return data


@pytest.fixture
def ask(chromium: Browser, tmp_path: Path) -> Callable[[str], Any]:
    """What an expression of JavaScript is on a page with the model alone."""
    page = tmp_path / "page.html"
    model = (FOLDER / "product_model.js").read_text(encoding="utf-8")
    page.write_text(f"<!doctype html><script>{model}</script>")
    chromium.open(page)
    return chromium.run


@pytest.fixture
def predict(ask: Callable[[str], Any]) -> Callable[..., list[float]]:
    """The time of an option at each of several shapes, on 132 compute units."""

    def totals(option: dict[str, Any], shapes: list[dict[str, int]]) -> list[float]:
        seconds: list[float] = ask(
            f"{json.dumps(shapes)}.map((shape) =>"
            f" productModel.predict({json.dumps(option)}, shape, {{ compute_units: 132 }}).total)"
        )
        return seconds

    return totals


def random_shapes(count: int) -> list[dict[str, int]]:
    """Log-uniform sizes: a third in steps of 128, a third of 8, a third of 1, some far outside."""
    source = random.Random(18)
    shapes = []
    for number in range(count):
        step = (128, 8, 1)[number % 3]
        sizes = (round(2 ** source.uniform(0, 17) / step) * step or step for _ in range(3))
        shapes.append(dict(zip("mnk", sizes, strict=True)))
    return shapes


def python_answers(
    options: list[dict[str, Any]], shapes: list[dict[str, int]]
) -> dict[tuple[int, int], list[Any]]:
    """(shape, option) -> what binds, total, ends of the interval, and doublings outside."""
    sources = Sources(calibration=load_run(PUBLISHED).calibration)
    points = {
        (row, place): PlanPoint(
            op=option["op"],
            provider=option["provider"],
            recipe=option["recipe"],
            shape=shape,
            device="",
        )
        for row, shape in enumerate(shapes)
        for place, option in enumerate(options)
        if refusal(BY_NAME[option["op"]], option["provider"], option["recipe"], shape) is None
    }
    predictions = predict_points(calibrated, list(points.values()), sources)
    by_id = {prediction.point_id: prediction for prediction in predictions}
    answers = {}
    for key, point in points.items():
        doublings, unprobed = beyond_probes(sources.calibration, point)
        told = by_id[point.point_id]
        seconds = [told.total_s, told.low_s, told.high_s, doublings]
        answers[key] = [told.bound_by, bool(unprobed), *seconds]
    return answers


@pytest.mark.parametrize("kind", ["options", "casts"])
def test_the_browser_predicts_what_python_predicts(
    ask: Callable[[str], Any], published: dict[str, Any], kind: str
) -> None:
    shapes = random_shapes(240)
    if kind == "casts":
        shapes = [{"rows": one["m"], "cols": one["n"]} for one in shapes]
    in_browser = ask(
        f"""(() => {{
          const device = {json.dumps(published)}, shapes = {json.dumps(shapes)};
          return shapes.map((shape) => device.{kind}.map((option) => {{
            const reason = productModel.refusal(option, shape);
            if (reason) return {{ reason }};
            const {{ {", ".join(ANSWER)} }} = productModel.predict(option, shape, device);
            const answer = [{", ".join(ANSWER)}];
            return {{ answer, memory: productModel.memoryRefusal(option, shape, device) }};
          }}));
        }})()"""
    )
    answers = python_answers(published[kind], shapes)
    assert len(answers) >= 240 * len(published["casts"])
    kinds: set[bool] = set()
    for row, of_shape in enumerate(in_browser):
        for place, said in enumerate(of_shape):
            option = published[kind][place]
            key = option["op"], option["provider"], option["recipe"]
            if (row, place) in answers:
                bound_by, unprobed, *seconds = said["answer"]
                own_bound_by, is_unprobed, *own = answers[row, place]
                kinds.add(is_unprobed)
                assert (bound_by, bool(unprobed)) == (own_bound_by, is_unprobed), key
                assert seconds == pytest.approx(own, rel=1e-9, abs=0), key
                point = PlanPoint(
                    op=key[0], provider=key[1], recipe=key[2], shape=shapes[row], device=""
                )
                assert said["memory"] == memory_refusal(point, h200())
            else:
                assert said["reason"] == refusal(BY_NAME[key[0]], *key[1:], shapes[row])
    assert kinds == ({True, False} if kind == "options" else {False})


@pytest.mark.parametrize("family", FAMILIES)
def test_the_browser_knows_every_family_of_tiles_and_every_constant(
    predict: Callable[..., list[float]], published: dict[str, Any], family: str
) -> None:
    shapes = random_shapes(120)
    place = list(FAMILIES).index(family)
    (option,) = (
        one
        for one in published["options"]
        if (one["provider"], one["recipe"]) == ("cublaslt", "fp8_axiswise")
    )
    # what a calibration lacks: the neutral value spread, or a rate and a time of the usual size
    further = {"store_bytes_per_s": 1e12, "piece_bytes_per_s": 2e12}
    further |= {"misaligned": 1.2, "split_k_s": 1e-6}
    further |= {"side_s": 1e-9, "direct_flops_per_s": 1e14, "pack_bytes_per_s": 9e12}
    further |= {"pack_a_bytes_per_s": 3e12, "pack_b_bytes_per_s": 2e12, "update_bytes_per_s": 4e12}
    further |= {"near_bytes": 4e6, "far": 0.4}
    constants = option["constants"] | further
    declared = family_record(list(FAMILIES.values())[place])
    in_browser = predict(option | declared | {"constants": constants}, shapes)
    m, n, k = (np.array([float(shape[axis]) for shape in shapes]) for axis in "mnk")
    totals = gemm.evaluate(constants, family, "fp8_axiswise", (m, n, k), 132).total
    assert in_browser == pytest.approx(totals.tolist(), rel=1e-9, abs=0)


def test_a_provider_for_larger_shapes_is_named_only_where_no_option_runs(
    ask: Callable[[str], Any], published: dict[str, Any]
) -> None:
    larger = "triton_specialised"
    own = dict(next(one for one in published["options"] if one["provider"] == "triton"))
    other = own | {"provider": larger, "least_sizes": {"m": 33}}

    def names(options: list[dict[str, Any]], m: int, n: int = 4096) -> list[list[str]]:
        device = json.dumps(published | {"options": options})
        answer: list[list[str]] = ask(
            f"""(() => {{ const {{ ranked, refused }} = productModel.rank({device},
              {{ m: {m}, n: {n}, k: 4096 }}, false);
              return [ranked, refused].map((all) => all.map((one) => one.option.provider)); }})()"""
        )
        return answer

    spec, recipe = BY_NAME["mixed_gemm"], "int4_groupwise_g128"
    option = {"least_sizes": spec.least_sizes(larger, recipe), "provider": larger}
    option |= {"multiples": spec.size_multiples(larger, recipe), "recipe": recipe}
    shapes = [{"m": m, "n": 4096, "k": k} for m in (16, 17) for k in (4096, 4095)]
    reasons = ask(
        f"{json.dumps(shapes)}.map((shape) => productModel.refusal({json.dumps(option)}, shape))"
    )
    assert reasons == [refusal(spec, larger, recipe, shape) for shape in shapes]
    assert [reason is None for reason in reasons] == [False, False, True, False]
    assert names([own, other], 32) == [["triton"], []]
    assert [sorted(side) for side in names([own, other], 33)] == [["triton", larger], []]
    assert names([other], 32) == [[], [larger]]
    far = ask(
        f"productModel.rank({json.dumps(published)}, {{ m: 16384, n: 4096, k: 4096 }}, true)"
        ".refused.map((one) => one.reason)"
    )
    assert any("doublings outside the probed range" in reason for reason in far)


@pytest.mark.parametrize("family", [one for one in cast.FAMILIES if one != "ours_columns"])
@pytest.mark.parametrize("recipe", ["fp8_tensorwise", "fp8_rowwise_dim0", "fp8_blockwise_1x128"])
def test_the_browser_knows_every_cast_along_rows(
    predict: Callable[..., list[float]], published: dict[str, Any], family: str, recipe: str
) -> None:
    shapes = [{"rows": one["m"], "cols": one["n"]} for one in random_shapes(240)]
    constants = {"fixed_s": 2e-6, "fill_s": 5e-7, "further_s": 4e-7, "bytes_per_s": 3e12}
    constants |= {"misaligned": 1.7, "uneven": 1.2, "cached_bytes_per_s": 9e12, "fork_s": 1e-6}
    constants |= {"serial_bytes_per_s": 1e13, "near_bytes": 3e7, "row_s": 1e-9}
    declared = family_record(cast.FAMILIES[family]) | {"constants": constants}
    option = published["casts"][0] | {"recipe": recipe} | cast_formats(recipe) | declared
    rows, cols = (np.array([float(shape[axis]) for shape in shapes]) for axis in ("rows", "cols"))
    parts = cast.evaluate(constants, family, recipe, (rows, cols), 132)
    assert predict(option, shapes) == pytest.approx(parts.total.tolist(), rel=1e-9, abs=0)


@pytest.mark.parametrize("family", mixed_gemm.FAMILIES)
def test_the_browser_knows_every_way_to_cut_narrow_weights(
    predict: Callable[..., list[float]], published: dict[str, Any], family: str
) -> None:
    shapes = [
        {"m": min(1024, one["m"]), "n": one["n"], "k": -(-one["k"] // 128) * 128}
        for one in random_shapes(240)
    ]
    constants = {"fixed_s": 2e-6, "bytes_per_s": 4e12, "weights_per_s": 2e13, "flops_per_s": 6e14}
    constants |= {"block_columns": 900.0, "waiting": 0.2, "ragged": 0.3, "turn_s": 2e-6}
    constants |= {"halving_s": 1e-6, "unit_s": 5e-7, "direct_s": 2e-6, "filling_s": 1e-6}
    constants |= {"pass_bytes_per_s": 3e12}
    how = mixed_gemm.FAMILIES[family]
    constants = {name: constants[name] for name in how.constants}
    declared = family_record(how) | {"constants": constants}
    m, n, k = (np.array([float(shape[axis]) for shape in shapes]) for axis in "mnk")
    options = [one for one in published["options"] if one["provider"] == "triton"]
    options = [one for one in options if one["op"] == "mixed_gemm"]
    assert len(options) == 4
    for option in options:
        in_browser = predict(option | declared, shapes)
        parts = mixed_gemm.evaluate(constants, family, option["recipe"], (m, n, k), 132)
        assert in_browser == pytest.approx(parts.total.tolist(), rel=1e-9, abs=0)


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
    box = ShapeBox(Analysis(run=narrow, spec=h200(), frames={}, sessions={}))
    data = box.data("h200")
    assert data is not None
    shown = [(option["recipe"], option["ways"]) for option in data["options"]]
    assert (shown, data["casts"], box.decision) == ([("fp8_axiswise", [])], [], None)


def test_a_calibration_that_lacks_a_constant_ranks_nothing_by_it(
    ask: Callable[[str], Any], published: dict[str, Any]
) -> None:
    option = dict(published["options"][0], constants={"launch_s": 1e-6})
    device = published | {"options": [option]}
    shape = "{ m: 4096, n: 4096, k: 4096 }"
    answer = ask(f"productModel.rank({json.dumps(device)}, {shape}, false)")
    assert answer["ranked"] == []
    assert "lacks a constant of its equation" in answer["refused"][0]["reason"]


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
    sources = Sources(calibration=products.run.calibration, spec=h200())
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


def test_the_first_sentence_of_the_page_is_that_of_advise(products: Analysis) -> None:
    box = ShapeBox(products)
    assert box.decision is not None
    m, n, k = box.first_shape.values()
    advised = advise("nvidia-h200", m=m, n=n, k=k).decision
    assert list(box.decision.sentences()) == list(advised.sentences())


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
    assert times == ["8.38 \u00b5smeasured, predicted 8.67 \u00b5s", "8.31 \u00b5s to 8.45 \u00b5s"]
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


@pytest.fixture
def simple(chromium: Browser, published: dict[str, Any], tmp_path: Path) -> Any:
    """The rows of options that take a launch time each: (recipe, seconds, factor)."""

    def rows(*options: tuple[str, float, float]) -> list[list[str]]:
        base = next(one for one in published["options"] if not one["family"]["tiles"])
        no_memory = {"dram_bytes_per_s": 1e30}
        own = [
            base
            | {"recipe": recipe, "constants": gemm.NEUTRAL | {"launch_s": seconds} | no_memory}
            | {"span": None, "multiples": {}, "unprobed": {}, "ways": [[]]}
            | {"half_widths": dict.fromkeys(gemm.GROUPS, math.log(factor))}
            for recipe, seconds, factor in options
        ]
        empty: dict[str, list[Any]] = {name: [] for name in published["measured"]}
        page = write_box(tmp_path, [published | {"options": own, "measured": empty}])
        chromium.open(page, "m=16&n=16&k=16")
        return rows_of(chromium)

    return rows


def test_the_interval_of_every_other_recipe_is_looked_at(chromium: Browser, simple: Any) -> None:
    two = ("fp8_axiswise", 1e-4, 1.01), ("bf16", 2e-4, 1.01)
    simple(*two)
    assert "no interval of another recipe overlaps it" in chromium.run(SAID)
    simple(*two, ("fp8_rowwise", 3e-4, 5.0))
    assert "the interval of fp8_rowwise overlaps it" in chromium.run(SAID)


def test_a_time_has_three_digits_and_no_exponent(simple: Any) -> None:
    for seconds, text in (
        (9.997e-4, "1.00 ms"),
        (9.996e-7, "1.00 \u00b5s"),
        (8.4e-16, "0.000000840 ns"),
        (3.21e-5, "32.1 \u00b5s"),
    ):
        assert simple(("bf16", seconds, 1.0))[0][4].replace("\u00a0", " ") == text


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
