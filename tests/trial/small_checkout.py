"""A copy of the checkout with the few sweeps of a trial, and the files that a trial has changed."""

from pathlib import Path

from tests.workflow.checkout import Checkout, copy_checkout

PROBES_OF_THE_DEVICE = ("probe_launch", "probe_copy")  # what every calibration has


def checkout_with_sweeps(folder: Path, *ops: str) -> Checkout:
    """The checkout with the sweeps of these ops and of PROBES_OF_THE_DEVICE alone."""
    checkout = copy_checkout(folder)
    for sweep in checkout.folder.glob("config/sweeps/*.yaml"):
        if sweep.stem not in (*PROBES_OF_THE_DEVICE, *ops):
            sweep.unlink()
    return checkout


def files_of(checkout: Checkout) -> dict[str, bytes]:
    """Path -> content of every file."""
    return {
        path.relative_to(checkout.folder).as_posix(): path.read_bytes()
        for path in checkout.folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def changed_files(before: dict[str, bytes], checkout: Checkout) -> set[str]:
    """Files that were added, removed or edited since files_of(checkout) was `before`."""
    after = files_of(checkout)
    return {path for path in before | after if before.get(path) != after.get(path)}
