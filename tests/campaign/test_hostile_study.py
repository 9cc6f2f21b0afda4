"""A study among folders of strangers: Snakemake runs none of their names and names the bad one."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaign.scratch import SECRET
from tests.paths import ROOT
from tests.workflow.checkout import Checkout, copy_checkout, with_stand_ins

_IN_SHELL = re.compile(r"\{(?:input|output|params|log|wildcards|threads|resources)\b[^}]*\}")
ENVIRONMENT = '{"record": "Environment", "schema_version": 2, "device": "cpu-x", "vendor": "cpu", '
ENVIRONMENT += '"device_name": "x", "compute_units": 1, "torch": "2", "python": "3"}\n'


@pytest.mark.parametrize("rules", sorted((ROOT / "workflow/rules").glob("*.smk")), ids=str)
def test_every_value_that_reaches_the_shell_is_quoted(rules: Path) -> None:
    shells = re.findall(r"\n    shell:\n((?:        .*\n)+)", rules.read_text())
    values = [value for shell in shells for value in _IN_SHELL.findall(shell)]
    assert bool(values) == bool(shells)
    assert [value for value in values if not value.endswith(":q}")] == []


def published(name: str) -> Callable[[Checkout], None]:
    """A publication whose folder has this name."""
    return lambda checkout: checkout.write(
        f"reports/published/{name}/e1/environment.jsonl", ENVIRONMENT
    )


def earlier(name: str) -> Callable[[Checkout], None]:
    """An earlier run on the device cpu-test whose environment has this name."""
    return lambda checkout: checkout.write(
        f"results/cpu-test/{name}/environment.jsonl", ENVIRONMENT
    )


def linked(checkout: Checkout) -> None:
    """A publication that holds a link to a secret."""
    published("stranger")(checkout)
    (checkout.folder / "reports/published/stranger/e1/plan").symlink_to("../../../../../secret")


def shapes(checkout: Checkout) -> None:
    """A CSV of shapes whose name Snakemake would take for a pattern."""
    checkout.write("{op}.csv", "m,n,k\n1,1,1\n")
    checkout.replace("config/config.yaml", "study: quick", 'study: quick\nshapes_csv: "{op}.csv"')


def study_after(
    change: Callable[[Checkout], None], folder: Path
) -> tuple[Checkout, subprocess.CompletedProcess[str]]:
    """A checkout beside a secret after a change, and the study that was run in it."""
    checkout = with_stand_ins(copy_checkout(folder / "checkout"))
    (folder / "secret").write_text(SECRET)
    change(checkout)
    return checkout, checkout.snakemake("--cores", "2")


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (published("$(touch PWNED)"), "letters, digits"),
        (published("a b"), "letters, digits"),
        (published("{op}"), "letters, digits"),
        (published("-rf"), "letters, digits"),
        (earlier("`touch PWNED`"), "letters, digits"),
        (earlier("a;touch PWNED"), "letters, digits"),
        (earlier("a'b"), "letters, digits"),
        (earlier("a\nb"), "letters, digits"),
        (shapes, "braces"),
    ],
)
def test_a_study_refuses_names_that_would_mean_something_else(
    change: Callable[[Checkout], None], says: str, tmp_path: Path
) -> None:
    checkout, done = study_after(change, tmp_path)

    assert done.returncode == 2, done.stdout
    assert says in done.stdout
    assert done.stdout.count("error: ") == 1
    assert "Traceback" not in done.stdout
    assert SECRET not in done.stdout
    assert not list(tmp_path.rglob("PWNED"))
    assert not (checkout.folder / "results/report").exists()


@pytest.mark.campaign
def test_a_study_leaves_out_a_publication_with_a_link_and_does_not_follow_it(
    tmp_path: Path,
) -> None:
    checkout, done = study_after(linked, tmp_path)

    assert done.returncode == 0, done.stdout
    assert "reports/published/stranger/e1 is left out" in done.stdout
    assert "symbolic link" in done.stdout
    assert SECRET not in done.stdout
    assert SECRET not in (checkout.folder / "results/report/report.html").read_text()
