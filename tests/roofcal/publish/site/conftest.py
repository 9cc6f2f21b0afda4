"""A site over made-up publications: two environments of one card, a hostile CPU, a damaged one."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from roofcal.core import paths
from roofcal.core.manifest import write_manifest
from roofcal.core.records import Environment
from roofcal.publish.site.write import LeftOut, write_site
from tests.made_once import make_once
from tests.roofcal.published import write_tables_alone
from tests.roofcal.report.synthetic import CPU, GPU, MadeUpRun, bare_run, product, whole_run

HOSTILE: Final = "<script>alert(1)</script> & =SUM(A1) {{ 7 * 7 }}"
NEWER: Final = replace(GPU, driver="590.2", torch="2.12.0")


def publish_tables(run: MadeUpRun, published: Path) -> Path:
    """The publication of a run without the drawing of its report, which takes seconds."""
    folder = run.write(published, ".jsonl.gz")
    write_tables_alone([(folder, folder)], folder / "report.html")
    write_manifest(folder, "c0ffee")
    return folder


def _write_publications(published: Path) -> None:
    publish_tables(whole_run(GPU), published)
    newer = whole_run(NEWER)
    newer.sessions = {op: {"started_utc": "2026-11-22T04:00:00+00:00"} for op in newer.points}
    newer.constant("gemm.cublaslt.bf16.ceiling_flops_per_s", 660e12, "flop/s")
    newer.constant("link.all_gather.2.bytes_per_s", 250e9, "B/s")
    newer.constant("link.all_gather.2.latency_s", 30e-6, "s")
    publish_tables(newer, published)
    publish_tables(_hostile_run(replace(CPU, device_name=HOSTILE)), published)
    damaged = publish_tables(_hostile_run(replace(CPU, device="damaged")), published)
    (damaged / "plan/gemm.jsonl.gz").write_bytes(b"cut")


def _hostile_run(environment: Environment) -> MadeUpRun:
    run = bare_run(environment)
    refused = product(64, 64, 64, "fp32", provider="torch_cpu", device=environment.device)
    run.fail(refused, "unsupported", HOSTILE)
    return run


def write_made_up(
    published: Path, out: Path, *, draws_reports: bool = False, model: str = "llama3-8b"
) -> list[LeftOut]:
    """The site of a folder of publications, with one language model or none: one takes seconds.

    draws_reports: draw the reports beside it, two to four seconds each, and not their tables alone.
    """
    models = published.parent / "models-of-the-site"
    models.mkdir(exist_ok=True)
    for file in paths.MODELS.glob(f"{model}.yaml"):
        shutil.copy(file, models)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "MODELS", models)
        if not draws_reports:
            patch.setattr("roofcal.publish.site.write.write_report", write_tables_alone)
        return write_site(published, out)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up publications."""
    return make_once(tmp_path_factory, "site-publications", _write_publications)


@pytest.fixture(scope="session")
def site(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their site, in a folder of its own."""
    return make_once(tmp_path_factory, "site", lambda folder: write_made_up(published, folder))


@pytest.fixture(scope="session")
def bare_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site where nothing is published."""
    return make_once(
        tmp_path_factory,
        "bare-site",
        lambda folder: write_made_up(folder.parent / "nothing-published", folder),
    )
