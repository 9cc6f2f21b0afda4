"""A made-up run whose points were predicted with calibrations of other environments too."""

from dataclasses import replace

from roofcal.core.environments import transferred_model
from tests.roofcal.report.synthetic import GPU, MadeUpRun, true_seconds, whole_run

OTHER_TORCH = replace(GPU, torch="2.0.1")
OTHER_DRIVER = replace(GPU, driver="123.45")
ERRORS = {OTHER_TORCH.environment_id: 0.02, OTHER_DRIVER.environment_id: -0.4}


def transferred_run() -> MadeUpRun:
    """The whole made-up run; its casts are predicted with the calibration of OTHER_TORCH alone."""
    run = whole_run()
    for op in ("gemm", "cast"):
        own = [p.point_id for p in run.predictions[op] if p.model == "calibrated"]
        points = [p for p in run.points[op] if p.point_id in own]
        for environment, error in ERRORS.items():
            if op == "cast" and environment != OTHER_TORCH.environment_id:
                continue
            for point in points:
                guess = true_seconds(point) * (1 + error)
                ends = {"low_s": 0.9 * guess, "high_s": 1.1 * guess}
                run.predict(point, transferred_model(environment), guess, **ends)
    return run
