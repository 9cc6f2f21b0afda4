"""One real study on this machine's CPU, with an op and a recipe of casts more."""

from pathlib import Path

import pytest

from tests.made_once import make_once
from tests.trial.edits import add_cast_recipe, add_op
from tests.workflow.checkout import Checkout, copy_checkout


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The finished study; whoever runs or edits something takes a copy."""

    def run_study(folder: Path) -> None:
        checkout = copy_checkout(folder / "checkout")
        add_op(checkout)
        add_cast_recipe(checkout)
        # Ranges of rates are asked of probe_transpose here; those of products take 6 s of CPU.
        (checkout.folder / "config/sweeps/probe_math.yaml").unlink()
        checkout.run()

    return Checkout(folder=make_once(tmp_path_factory, "real-study", run_study) / "checkout")


@pytest.fixture
def run(study: Checkout) -> Path:
    """Its run folder."""
    (folder,) = study.run_folders()
    return folder
