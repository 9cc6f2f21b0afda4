"""Measure the panel of config/health.yaml on one card of this machine, or on each of them."""

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.machine.nvml import visible_gpus
from roofcal.core.names import did_you_mean_or_all, is_name
from roofcal.core.paths import RunFolder
from roofcal.core.records import Environment, Session
from roofcal.core.yaml_files import ConfigError, read_yaml
from roofcal.health.comparison import HealthError
from roofcal.measure.session import Job, measure
from roofcal.ops import BY_NAME
from roofcal.study.plan import PlanError, plan_op
from roofcal.study.staleness import measure_hash

CPU_CARD: Final = "cpu"
LONGEST_S: Final = 90.0  # no op begins later: a prolog that takes 2 minutes holds up every job


def read_panel(path: Path, backend: str) -> dict[str, dict[str, Any]]:
    """Op -> its slice of the panel of a backend, as JSON values; raises ConfigError."""
    errors: list[str] = []
    content = read_yaml(path, errors).get(backend)
    if not errors and not (isinstance(content, dict) and content):
        errors.append(f"{path}: {backend}: must list ops with contenders and sweeps")
    elif isinstance(content, dict):
        for op, part in content.items():
            if op not in BY_NAME:
                errors.append(
                    f"{path}: {backend}: unknown op '{op}'{did_you_mean_or_all(op, BY_NAME)}"
                )
            elif not isinstance(part, dict):
                errors.append(f"{path}: {backend}.{op}: must be a mapping")
    if errors:
        raise ConfigError("\n".join(errors))
    return {op: {"op": op, "seed": 0, **part} for op, part in (content or {}).items()}


def measure_card(
    panel: Mapping[str, Mapping[str, Any]],
    environment: Environment,
    timing: Mapping[str, Any],
    root: Path,
    uuids: Sequence[str] = (),
) -> Path:
    """Measure the panel on one card; the run folder that it is written to.

    uuids: the card, and those that share the points of several with it; without them, the first
        free card.

    The folder is <root>/<device>/<environment_id>/<node>/<slot>_<uuid>, or <node>/cpu; an earlier
    measurement of the card is replaced. Ops that are left after LONGEST_S are not measured, and
    standard error says so. Raises HealthError for a panel that cannot be planned, MeasureError
    where nothing can be measured.
    """
    of_node = root / environment.device / environment.environment_id / node_name()
    of_node.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=of_node, prefix=".") as place:
        run = RunFolder.at(Path(place) / "run")
        write_records(run.environment_file, [environment])
        for op, op_slice in panel.items():
            try:
                write_records(run.plan_file(op), plan_op(op_slice, environment))
            except PlanError as error:
                raise HealthError(f"config/health.yaml: {op}: {error}") from None
        cards = _measured_cards(run, list(panel), timing, uuids)
        shutil.rmtree(run.folder / "journal", ignore_errors=True)
        if len(cards) != 1:
            raise HealthError(
                f"{', '.join(sorted(cards)) or 'no card'}: the panel was measured on several "
                "cards, because they are shared; set CUDA_VISIBLE_DEVICES to one"
            )
        uuid = cards.pop()
        address = {gpu.uuid: gpu.pci_address for gpu in visible_gpus()}.get(uuid)
        # by the slot, as 1b-00.0_GPU-..., so that cards of a node have an order
        slot = address.removeprefix("0000:").replace(":", "-") + "_" if address else ""
        target = of_node / f"{slot}{uuid}"
        shutil.rmtree(target, ignore_errors=True)
        run.folder.replace(target)
    return target


def _measured_cards(
    run: RunFolder, ops: Sequence[str], timing: Mapping[str, Any], uuids: Sequence[str]
) -> set[str]:
    """Measure the planned ops one after the other; the cards that they ran on, first ranks'."""
    start = time.monotonic()
    cards: set[str] = set()
    for place, op in enumerate(ops):
        if time.monotonic() - start > LONGEST_S:
            left = ", ".join(ops[place:])
            sys.stderr.write(f"not measured after {LONGEST_S:.0f} s: {left}\n")
            break
        out = run.folder / "measurements" / f"{op}.jsonl"
        job = Job(
            plan=run.plan_file(op),
            environment=run.environment_file,
            timing=timing if not cards else {**timing, "warm_card_s": 0},
            journal=run.journal_file(op),
            out=out,
            code_hash_of=measure_hash,
        )
        with _visible_devices(uuids if BY_NAME[op].shared_axis else uuids[:1]):
            measure(job)
        sessions = read_records(out, Session)
        cards |= {session.cards[0] if session.cards else CPU_CARD for session in sessions}
    return cards


def measure_node(
    panel: Mapping[str, Mapping[str, Any]],
    environment: Environment,
    timing: Mapping[str, Any],
    root: Path,
) -> list[Path]:
    """Measure the panel on every visible card of this node in turn; a run folder per card.

    One after the other: two cards that are measured at once share the power and the air of the
    node. The link of a card is that to the next one. Raises as `measure_card`.
    """
    uuids = [gpu.uuid for gpu in visible_gpus() if gpu.name == environment.device_name]
    turns = [(*uuids[place:], *uuids[:place]) for place in range(len(uuids))] or [()]
    return [measure_card(panel, environment, timing, root, turn) for turn in turns]


@contextmanager
def _visible_devices(uuids: Sequence[str]) -> Iterator[None]:
    """CUDA_VISIBLE_DEVICES for a with block; as it is where there is no GPU."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    if uuids:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(uuids)
    try:
        yield
    finally:
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before
        elif uuids:
            del os.environ["CUDA_VISIBLE_DEVICES"]


def node_name() -> str:
    """What SLURM, or else the machine, calls this node; HealthError if that names no folder."""
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    if not is_name(node):
        raise HealthError(
            f"{node!r}: the name of this node (SLURMD_NODENAME, or else the host's) becomes a "
            "folder: letters, digits and . _ + - alone"
        )
    return node
