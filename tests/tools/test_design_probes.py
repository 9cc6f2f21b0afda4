"""The probes of the smallest study: what a design is, and what its shapes must span."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from roofcal.ops import BY_NAME
from roofcal.ops.predictions import GROWTH, NOTICEABLE, extents
from roofcal.ops.spec import Shape
from roofcal.study.config import load_study
from roofcal.study.plan import sweep_shapes
from tests.paths import ROOT
from tests.roofcal.models.runs import calibration
from tools import design_probes
from tools.design_probes import DESIGNS, Design, Knowledge, expected_error, greedy_design

STUDY = load_study(ROOT / "config")
LEAST_LAYER = 512  # sides of layers: on eight devices experts have narrower ones


def shapes_of(design: Design) -> list[Shape]:
    """The shapes of the sweep that config/ has of a design."""
    probe = BY_NAME[f"probe_{'math' if design.op == 'gemm' else design.op}"]
    sweep = STUDY.sweep_files[probe.name].sweeps[design.sweep]
    assert sweep.providers == [design.provider]
    assert tuple(sweep.recipes or ()) == design.recipes
    return list(sweep_shapes(probe, sweep, {}, None))


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: f"{d.op}.{d.sweep}")
def test_designed_shapes_are_candidates_and_span_the_layers(design: Design) -> None:
    """Candidates are in no study, so that no study point is in a fit."""
    chosen = [tuple(shape.values()) for shape in shapes_of(design)]
    assert len(set(chosen)) == len(chosen) == design.count
    candidates = design_probes.candidate_shapes(design, STUDY)
    assert set(chosen) <= {tuple(shape.values()) for shape in candidates}
    op = BY_NAME[design.op]
    for name, sweep in STUDY.sweep_files[design.op].sweeps.items():
        studied = {tuple(s.values()) for s in sweep_shapes(op, sweep, STUDY.models, None)}
        assert studied.isdisjoint(chosen), name

    layers = design_probes.layer_shapes(design, STUDY)
    wide = [shape for shape in layers if min(list(shape.values())[1:]) >= LEAST_LAYER]
    assert len(wide) > 100
    for recipe in design.recipes:
        probes, own = (
            pd.DataFrame([extents(op, recipe, shape) for shape in shapes])
            for shapes in (shapes_of(design), wide)
        )
        assert (probes.min() <= own.min() * 2**NOTICEABLE).all(), recipe
        assert (own.max() <= probes.max() * 2**NOTICEABLE).all(), recipe


def made_up(seed: int) -> Knowledge:
    """Thirty candidates and fifty layers of three constants, all of one extent."""
    source = np.random.default_rng(seed)
    return Knowledge(
        covariance=np.diag([0.01, 0.04, 0.25]),
        of_candidates=source.uniform(0, 1, (30, 3)),
        of_layers=source.uniform(0, 1, (50, 3)),
        extents_of_candidates=np.zeros((30, 1)),
        extents_of_layers=np.zeros((50, 1)),
    )


def test_the_variance_is_that_of_bayesian_regression() -> None:
    known, chosen = made_up(0), [3, 7, 20]
    rows = known.of_candidates[chosen]
    noise = design_probes._NOISE**2
    posterior = np.linalg.inv(np.linalg.inv(known.covariance) + rows.T @ rows / noise)
    wanted = np.mean(np.diag(known.of_layers @ posterior @ known.of_layers.T)) + noise
    assert expected_error([known], chosen) ** 2 == pytest.approx(wanted, rel=1e-9)
    assert np.allclose(known.after(chosen), posterior)


def test_each_step_takes_the_best_candidate_and_none_twice() -> None:
    recipes = [made_up(1), made_up(2)]
    chosen = greedy_design(recipes, 4)
    assert len(set(chosen)) == 4
    for number, best in enumerate(chosen):
        before = chosen[:number]
        others = [i for i in range(30) if i not in before]
        assert best == min(others, key=lambda i: expected_error(recipes, [*before, i]))
    errors = [expected_error(recipes, chosen[: number + 1]) for number in range(4)]
    assert errors == sorted(errors, reverse=True)


def test_layers_outside_of_the_span_count_more() -> None:
    known = made_up(3)
    far = replace(known, extents_of_layers=np.full((50, 1), 2.0))
    ratio = expected_error([far], [0, 1]) / expected_error([known], [0, 1])
    assert ratio == pytest.approx(1 + 2 * GROWTH)
    reaching = far.extents_of_candidates.copy()
    reaching[1] = 2.0
    near = replace(far, extents_of_candidates=reaching)
    assert expected_error([near], [0, 1]) == pytest.approx(expected_error([known], [0, 1]))


def test_the_last_steps_reach_the_layers_that_no_step_before_reached() -> None:
    known = made_up(4)
    sizes = np.zeros((30, 1))
    sizes[[11, 12], 0] = -1.0, 9.0
    rows = known.of_candidates.copy()
    rows[[11, 12]] = 1e-6  # which tell nothing else
    layers = np.linspace(-1, 8, 50)[:, None] * 1e-3
    layers[[0, -1], 0] = -1.0, 8.0
    known = replace(
        known, of_candidates=rows, extents_of_candidates=sizes, extents_of_layers=layers
    )
    chosen = greedy_design([known], 6)
    assert {11, 12} <= set(chosen)
    assert not {11, 12} & set(chosen[:2])


def test_derivatives_are_those_of_the_equation_of_the_calibration() -> None:
    known = calibration()
    design = replace(DESIGNS[0], recipes=("bf16",))
    shapes = [{"m": 1, "n": 512, "k": 512}, {"m": 8192, "n": 8192, "k": 8192}]
    one = Knowledge.of(design, "bf16", known, shapes, shapes)
    names = [n for n, c in known.constants.items() if n.startswith("gemm.cublaslt.bf16.")]
    assert one.of_candidates.shape[0] == 2
    assert len(names) >= one.of_candidates.shape[1] == len(one.covariance)
    assert np.abs(one.of_candidates).max() > 0.1
    assert (np.sqrt(np.diag(one.covariance)) >= 0.1).all()
    # Twice as slow in everything is twice the time: rates count -1, times 1.
    signs = [-1 if "per_s" in n else 1 for n in names if known.constants[n].unit != "code"]
    assert (one.of_candidates @ signs)[1] == pytest.approx(1, abs=0.2)
