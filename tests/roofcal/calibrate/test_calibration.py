"""A calibration finds the constants a made-up GPU was made with, and sees probes alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roofcal.calibrate import calibrate
from roofcal.core.jsonl import RecordsError, encode, read_records, read_single_record, write_records
from roofcal.core.records import Calibration, Measurement, PlanPoint, Session, Visit
from roofcal.fitting.probes import CalibrationError
from roofcal.ops.gemm import model as gemm
from roofcal.ops.predictions import parts_of_pair
from roofcal.ops.priors import fractions_of
from tests.made_once import make_once
from tests.roofcal.calibrate.probe_runs import (
    DRAM,
    ENVIRONMENT,
    TRUTH,
    products,
    seconds,
    shapes,
    write_products,
    write_run,
)
from tests.roofcal.made_up_records import exactly
from tests.roofcal.models.runs import SPEC


@pytest.fixture(scope="module")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """That of noisy probes, which one process makes."""

    def write_calibration(folder: Path) -> None:
        fitted = calibrate(write_run(folder / "run", noise=0.01))
        write_records(folder / "calibration.jsonl", [fitted])

    made = make_once(tmp_path_factory, "calibration", write_calibration)
    return read_single_record(made / "calibration.jsonl", Calibration)


def test_a_quiet_machine_is_not_called_disturbed(calibration: Calibration) -> None:
    assert calibration.disturbances == ()
    assert "disturbances" not in encode(calibration)


@pytest.mark.usefixtures("few_resamples")
def test_load_and_moving_sentinels_of_probes_are_in_the_record(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ops=("probe_copy",))
    plan, measurements = (run / kind / "probe_copy.jsonl" for kind in ("plan", "measurements"))
    sentinel = replace(read_records(plan, PlanPoint)[0], repeat=1, sweeps=("sentinel",))
    visits = tuple(
        Visit(first_sample=first, warmup_samples=0, session_id=session)
        for first, session in ((0, "s1"), (3, "s1"), (6, "s2"))
    )
    moved = Measurement(
        point_id=sentinel.point_id,
        environment_id=ENVIRONMENT.environment_id,
        session_id="s1",
        status="ok",
        latency_samples_s=(1e-4,) * 3 + (1.2e-4,) * 3 + (2e-4,) * 3,
        slice_starts=(0, 3, 6),
        visits=visits,
    )
    session = Session(
        session_id="s1",
        environment_id=ENVIRONMENT.environment_id,
        op="probe_copy",
        host="h",
        device_uuid=None,
        git_commit=None,
        git_dirty=None,
        code_hash="c",
        command="",
        timing={},
        started_utc="",
        busy_share=0.95,
        other_processes=1,
    )
    write_records(plan, [sentinel, *read_records(plan)])
    slower = replace(session, session_id="s2", busy_share=None, other_processes=None)
    write_records(measurements, [session, slower, *read_records(measurements), moved])

    calibration = calibrate(run)

    assert calibration.disturbances == (
        "The repeated sentinel of probe_copy moved by 20.0 % in a session.",
        "Other processes kept 95 % of the processor cores busy.",
        "1 other process used the card.",
    )
    assert '"disturbances":["The repeated' in encode(calibration)


def value(calibration: Calibration, name: str) -> float:
    return calibration.constants[name].value


def test_the_constants_that_matter_are_found_again(calibration: Calibration) -> None:
    assert calibration.device == "made-up"
    assert calibration.environment_id == ENVIRONMENT.environment_id
    for kind, rate in DRAM.items():
        constant = calibration.constants[f"dram_{kind}_bytes_per_s"]
        assert constant.value == pytest.approx(rate, rel=0.03)
        assert constant.ci95_low <= constant.value <= constant.ci95_high
    assert value(calibration, "launch_graph_s") == pytest.approx(7e-7)
    assert value(calibration, "launch_eager_s") == pytest.approx(13e-6)
    for name in ("launch_s", "dram_bytes_per_s", "sustained_flops_per_s"):
        assert value(calibration, f"gemm.made.bf16.{name}") == pytest.approx(TRUTH[name], rel=0.1)
    # clock and power are those after settling
    assert value(calibration, "gemm.made.bf16.sustained_sm_clock_hz") == 1.4e9
    assert value(calibration, "gemm.made.bf16.sustained_power_w") == 690.0


def test_new_shapes_are_predicted_within_the_noise(calibration: Calibration) -> None:
    m, n, k = shapes(300, seed=11)
    truth = seconds("bf16", "any_tile_split_k", TRUTH, m, n, k)
    error = parts_of_pair(gemm, calibration, "made", "bf16", (m, n, k)).total / truth - 1
    assert np.abs(error).mean() < 0.03
    assert calibration.probe_errors["gemm.made.bf16"]["mape"] < 0.05


@pytest.mark.usefixtures("few_resamples")
def test_two_providers_of_a_recipe_are_fitted_apart(tmp_path: Path) -> None:
    slower = TRUTH | {"launch_s": 4 * TRUTH["launch_s"], "wave_s": 4e-6}
    own, other = (
        products("any_tile", count=32, provider="made"),
        products("tile_128x128", count=32, provider="slow", truth=slower),
    )
    alone, both = (tmp_path / name for name in ("alone", "both"))
    for run, rows in ((alone, own), (both, own + other)):
        write_records(run / "environment.jsonl", [ENVIRONMENT])
        write_products(run, rows)

    fitted = calibrate(both)

    prefix = "gemm.made."
    expected = {k: v for k, v in calibrate(alone).constants.items() if k.startswith(prefix)}
    assert {k: v for k, v in fitted.constants.items() if k.startswith(prefix)} == expected
    assert value(fitted, "gemm.slow.bf16.launch_s") == pytest.approx(slower["launch_s"], rel=0.1)
    assert "tile_128x128" in fitted.constants["gemm.slow.bf16.tile_family"].evidence
    for provider in ("made", "slow"):
        assert fitted.probe_errors[f"gemm.{provider}.bf16"]["count"] == 32


def test_constants_that_no_probe_depends_on_are_left_out(calibration: Calibration) -> None:
    assert "gemm.made.bf16.split_k_s" in calibration.constants
    assert (
        "gemm.made.bf16.k_latency_odd_s_per_byte" not in calibration.constants
    )  # every probe is aligned
    assert "gemm.made.bf16.misaligned" not in calibration.constants


@pytest.mark.usefixtures("few_resamples")
def test_equal_probes_give_equal_numbers_and_a_study_op_is_never_opened(tmp_path: Path) -> None:
    run = write_run(tmp_path, noise=0.01, ops=("probe_copy", "probe_cast"))
    once = calibrate(run)
    (run / "measurements" / "gemm.jsonl").write_text("not a record: opening this would fail\n")
    assert encode(calibrate(run)) == encode(once)


@pytest.mark.usefixtures("few_resamples")
def test_other_cards_are_priors_of_a_fit_and_the_card_itself_is_none(
    tmp_path: Path, calibration: Calibration
) -> None:
    run = write_run(tmp_path, noise=0.01, ops=("probe_copy", "probe_math"))
    name = "gemm.made.bf16.k_latency_odd_s_per_byte"  # of which no probe of the run tells
    itself = replace(calibration, constants={**calibration.constants, name: exactly(7e-9, "s/B")})
    card = fractions_of(itself, SPEC)

    alone = calibrate(run, SPEC, cards=[card])
    assert name not in alone.constants
    assert not any("prior" in constant.evidence for constant in alone.constants.values())

    # The same card with other software is another one.
    others = [replace(card, environment_id="e2"), replace(card, device="other")]
    fitted = calibrate(run, SPEC, cards=[card, *others])
    held = fitted.constants[name]
    assert held.value == pytest.approx(7e-9, rel=0.02)
    assert held.ci95_low < 0.9 * held.value
    assert held.ci95_high > 1.1 * held.value
    assert held.evidence.endswith(", prior of made-up and other")
    assert value(fitted, "gemm.made.bf16.launch_s") == pytest.approx(3e-6, rel=0.1)


def test_what_is_missing_is_named_with_the_way_out(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    plan = run / "plan" / "probe_math.jsonl"
    plan.write_text("".join(plan.read_text().splitlines(keepends=True)[:5]))
    with pytest.raises(CalibrationError, match="made bf16: 5 products in probe_math, needs 12"):
        calibrate(run)
    for path in (run / "measurements").iterdir():
        path.unlink()
    with pytest.raises(CalibrationError, match="no probe was measured; run `snakemake"):
        calibrate(run)
    (tmp_path / "environment.jsonl").write_text("")
    with pytest.raises(RecordsError, match="holds 0 Environment records instead of one; restore"):
        calibrate(run)
