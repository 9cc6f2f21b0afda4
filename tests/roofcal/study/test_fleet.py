"""Which nodes a fleet has: those that are named, expanded by SLURM, or this machine."""

import socket
from pathlib import Path

import pytest

from roofcal.study.fleet import FleetError, fleet_nodes


def test_without_names_the_fleet_is_this_machine() -> None:
    assert fleet_nodes([]) == [socket.gethostname()]


def test_every_node_is_named_once() -> None:
    assert fleet_nodes(["n1", "n2", "n1"]) == ["n1", "n2"]


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "scontrol"


def test_slurm_expands_a_list_of_nodes(scontrol: Path) -> None:
    scontrol.write_text("#!/bin/sh\n[ \"$3\" = 'n[1-2]' ] && echo n1 && echo n2\n")
    scontrol.chmod(0o755)
    assert fleet_nodes(["n[1-2]", "c1"]) == ["n1", "n2", "c1"]
    with pytest.raises(FleetError, match=r"'n\[\]': scontrol: names no node"):
        fleet_nodes(["n[]"])


def test_without_slurm_a_list_of_nodes_cannot_be_expanded(scontrol: Path) -> None:
    assert not scontrol.exists()
    with pytest.raises(FleetError, match="list every node"):
        fleet_nodes(["n[1-2]"])


def test_a_node_that_is_no_folder_is_refused() -> None:
    with pytest.raises(FleetError, match="no name of a node"):
        fleet_nodes(["../n1"])
