"""On which terms a run may be published: a clean checkout, and predictions that are good enough.

The checkout is that of the person who publishes: its commit is what the manifest names. The
commits that the measuring sessions recorded are not checked.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from roofcal.core.machine.checkout import MEASURING_CODE, GitError
from roofcal.core.machine.checkout import changed_files as checkout_changes
from roofcal.ops import BY_NAME
from roofcal.points.columns import MODEL
from roofcal.points.run import load_run
from roofcal.report.data.prediction_errors import error_by_regime, error_of
from roofcal.study.schema import Publishing

_DECIDING: Final = ("config", *MEASURING_CODE)  # a file more changes what is derived
_NAMED: Final = 3  # files of a dirty checkout that the message names


class TermsError(ValueError):
    """Why a run may not be published; the message says how to go on."""


def check_terms(run: Path, limits: Publishing, published: Path) -> None:
    """Raises TermsError for a dirty checkout, or an op whose predictions are beyond their limit.

    published: as of check_checkout. Raises RecordsError, ReportError for bad files of the run.
    """
    check_checkout(published)
    beyond = []
    for op, error, count in hold_out_errors(run):
        limit = limits.per_op.get(op, limits.largest_error)
        if error > limit:
            beyond.append(
                f"op {op}: the calibrated model is {error:.1%} off (MAPE of {count} study points), "
                f"the limit is {limit:.1%}"
            )
    if beyond:
        raise TermsError("\n".join([*beyond, _RAISE]))


def check_checkout(published: Path) -> None:
    """Raises TermsError where the checkout is not that of its commit.

    published: the folder of all publications; changes in it do not make its checkout dirty.
    """
    files = changed_files(published)
    if files:
        more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        raise TermsError(
            f"{', '.join(files[:_NAMED])}{more}: not as in the commit that the manifest would "
            "name; commit the changes, or put them away (git stash), publish, and take them back "
            "(git stash pop)"
        )


_RAISE: Final = (
    "find what the model misses (the report lists the worst points), or raise the limit of the op "
    "in a commit that says why: config/config.yaml, publish.per_op and publish.largest_error"
)


def hold_out_errors(run: Path) -> Iterator[tuple[str, float, int]]:
    """(op, MAPE, points) of the calibrated model on the study points of a run, which no fit saw.

    Ops without predictions are left out. Raises RecordsError, ReportError for bad files.
    """
    loaded = load_run(run)
    for op in loaded.ops:
        if BY_NAME[op].role != "study":
            continue
        errors = error_by_regime(loaded.points(op).table)
        row = error_of(errors, MODEL, op=op) if len(errors) else None
        if row is not None:
            yield op, float(row["mape"]), int(row["count"])


def changed_files(published: Path) -> list[str]:
    """Files that differ from the commit of the checkout, those in `published` left out.

    Files that git does not track count where they decide numbers: in the folders _DECIDING. []
    outside a git checkout, where nobody can tell. Raises TermsError where git fails.
    """
    where = published.resolve()
    root = where.parents[1]
    if not any((place / ".git").exists() for place in (root, *root.parents)):
        return []
    tracked = (".", f":(exclude){where.relative_to(root).as_posix()}")
    try:
        return checkout_changes(root, "HEAD", tracked, _DECIDING)
    except GitError as error:
        raise TermsError(f"{root}: git cannot tell whether it is clean: {error}") from None
