"""The section on energy: recipes by energy per FLOP, and points whose power is their own."""

import pandas as pd
import pytest

from roofcal.report.data.analysis import Analysis
from roofcal.report.sections.energy import recipes_by_energy, sentences
from tests.roofcal.report.chapters import shown_of


def point(recipe: str, energy_j: float, **changes: object) -> dict[str, object]:
    fields: dict[str, object] = {"op": "gemm", "recipe": recipe, "provider": "cublaslt"}
    fields |= {"shape": "8 x 8 x 8", "protocol": "graph, cold", "distribution": "normal"}
    fields |= {"repeat": 0, "sm_clock_hz": 1.4e9, "energy_j": energy_j}
    fields |= {"energy_j_per_flop": energy_j / 1024, "counter_over_power": -0.02}
    return fields | changes


def test_recipes_stand_by_their_energy_and_over_bf16_of_equal_shapes() -> None:
    points = pd.DataFrame(
        [
            point("bf16", 2.0),
            point("fp8_axiswise", 1.0),
            point("bf16", 3.0, shape="16 x 8 x 8"),
            point("fp8_axiswise", 2.4, shape="16 x 8 x 8"),
            point("fp8_axiswise", 0.1, distribution="zeros"),  # zeros take less: no comparison
        ]
    )
    recipes = recipes_by_energy(points)
    assert recipes["recipe"].tolist() == ["fp8_axiswise", "bf16"]
    assert recipes["over_bf16"].tolist() == pytest.approx([0.65, 1.0])
    assert recipes["energy_j_per_flop"].iloc[0] == 1.0 / 1024
    best, power, counter = sentences(points, recipes)
    assert best.startswith("fp8_axiswise in gemm takes the least energy")
    assert "not at the wall" in power
    assert "counter and integrated power differ by 2.0" in counter


def test_a_made_up_run_at_the_power_limit_has_energy_beside_its_points(narrowed: Analysis) -> None:
    shown = shown_of(narrowed, "energy")
    points = shown.files["energy.csv"]
    assert set(points["energy_by"]) == {"power limit"}
    expected = points["board_w"] * points["median_s"]
    assert points["energy_j"].tolist() == pytest.approx(expected.tolist())
    assert (points["energy_low_j"] <= points["energy_j"]).all()
    assert list(shown.tables) == ["energy-recipes", "energy-points"]
    assert "No point of this run has read the energy counter" in shown.prose[0]
