"""A worker that imports no torch and does to each point what the point's first `sweeps` name says.

It keeps to the protocol of roofcal.measure.worker: every point is named, and what does not end
there is reported when all points of the group have been named.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from roofcal.core.jsonl import decode, encode
from roofcal.core.machine.locks import lock_name, try_lock
from roofcal.core.records import Measurement, PlanPoint

EVENTS: IO[str]
SETUP: dict[str, Any]


def main() -> None:
    global EVENTS, SETUP  # noqa: PLW0603 (one process, one session)
    EVENTS = os.fdopen(int(sys.argv[2]), "w")
    if not (line := sys.stdin.readline()):
        return
    SETUP = json.loads(line)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "AT_START" in os.environ:
        DEEDS[os.environ["AT_START"]](None)
    say(ready=True)
    for line in sys.stdin:
        group(json.loads(line))


def group(lines: list[str]) -> None:
    points = [point for text in lines if isinstance(point := decode(text), PlanPoint)]
    if points[0].sweeps[0] == "dies_without_a_word":
        os._exit(6)
    for point in points:
        say(at=point.point_id)
        note(f"{point.recipe} {point.sweeps[0]}")
        DEEDS[point.sweeps[0]](point)
    for point in points:
        if point.sweeps[0] == "is_slower_each_time":
            report(point, latency_samples_s=(1.0 + times_noted(point),) * 20)
        elif point.sweeps[0] == "is_slower_on_a_node":
            report(point, latency_samples_s=(time_on_node(point),) * 20)
        elif point.sweeps[0] == "reports_nonsense":
            report(point, peak_bytes=-1)
        elif point.sweeps[0] != "forgotten":
            report(point)
    say(done=True, compiled_s=0.25)
    deeds = {point.sweeps[0] for point in points}
    last_rank = SETUP.get("rank") == SETUP.get("world_size", 1) - 1
    if "ends_after_the_group" in deeds or ("last_rank_ends_after_the_group" in deeds and last_rank):
        os._exit(9)


def say(**event: Any) -> None:
    EVENTS.write(json.dumps(event) + "\n")
    EVENTS.flush()


def note(text: str) -> None:
    """Leave a trace for the test: who was asked for what."""
    with Path(os.environ["TRACE"]).open("a") as stream:
        stream.write(text + "\n")


def report(point: PlanPoint, **what: Any) -> None:
    body: dict[str, Any] = {key: SETUP[key] for key in ("environment_id", "session_id")}
    body |= {"status": "ok", "latency_samples_s": (0.5, 0.25), "calls_per_sample": 2} | what
    say(measurement=encode(Measurement(point_id=point.point_id, **body)))


def fatal(status: str) -> None:
    say(fatal="SomeError: it broke", status=status, now_s=time.monotonic())
    sys.exit(1)


def half_an_event() -> None:
    EVENTS.write('{"measurement": "{\\"record\\"')
    EVENTS.flush()


def half_an_event_and_death(_: PlanPoint | None) -> None:
    half_an_event()
    os._exit(4)


def hangs(_: PlanPoint | None) -> None:
    """Hang, and tell the test that nothing comes any more, see runs.hangs_are_noted."""
    with Path(os.environ["TRACE"]).with_name("hanging").open("a") as stream:
        stream.write(f"{os.getpid()}\n")
    time.sleep(1000)


def half_an_event_and_silence(_: PlanPoint | None) -> None:
    half_an_event()
    hangs(_)


def kills_the_session(_: PlanPoint | None) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(0)


def loses_the_device(point: PlanPoint) -> None:
    """As the real worker after a CUDA error: the row is sent, the process is of no more use."""
    report(point, status="failed", reason="CUDA error", latency_samples_s=())
    os._exit(3)


def leaves_a_child(_: PlanPoint | None) -> None:
    """The child holds the pipe of the events, so the supervisor sees no end of file."""
    child = subprocess.Popen(["sleep", "1000"], close_fds=False)
    note(f"child {child.pid}")
    os._exit(5)


def stays_behind(_: PlanPoint | None) -> None:
    EVENTS.close()
    time.sleep(1000)


def times_noted(point: PlanPoint) -> int:
    """How often a worker was asked for a point, this time among them."""
    return Path(os.environ["TRACE"]).read_text().count(f"{point.recipe} ")


def time_on_node(point: PlanPoint) -> float:
    """A millisecond, up to 0.5 % more on some nodes, and by SLOW_BY more on SLOW_NODE."""
    node = os.environ["SLURMD_NODENAME"]
    noise = zlib.crc32(f"{node} {point.point_id}".encode()) / 2**32
    slow = float(os.environ["SLOW_BY"]) if node == os.environ["SLOW_NODE"] else 0.0
    return 1e-3 * (1 + 0.005 * noise) * (1 + slow)


def only_the_second_time(deed: "Deed") -> "Deed":
    return lambda point: deed(point) if times_noted(point) == 2 else None


def waits_for_the_other_rank(point: PlanPoint) -> None:
    """For ever the first time, when the other rank is gone."""
    if times_noted(point) == 1:
        time.sleep(1000)


def tries_the_lock(_: PlanPoint | None) -> None:
    device = SETUP["uuid"] or "cpu"
    lock = try_lock(device)
    sockets = (line.split() for line in Path("/proc/net/unix").read_text().splitlines())
    inodes = {words[6] for words in sockets if words[7:] == [lock_name(device)]}
    entries = Path("/proc/self/fd").iterdir()  # one of them is gone by now: that of the folder
    files = [str(entry.readlink()) for entry in entries if os.path.lexists(entry)]
    inherited = any(f"socket:[{inode}]" in files for inode in inodes)
    note("lock free" if lock else f"lock held, by this process too: {inherited}")


Deed = Callable[[Any], object]
DEEDS: dict[str, Deed] = {
    "works": lambda _: None,
    "takes a moment": lambda _: time.sleep(0.02),
    "takes a second": lambda _: time.sleep(1),
    "forgotten": lambda _: None,
    "reports_nonsense": lambda _: None,
    "ends_after_the_group": lambda _: None,
    "last_rank_ends_after_the_group": lambda _: None,
    "is_slower_each_time": lambda _: None,
    "is_slower_on_a_node": lambda _: None,
    "exits_the_second_time": only_the_second_time(lambda _: os._exit(7)),
    "kills_the_session_the_second_time": only_the_second_time(kills_the_session),
    "exits": lambda _: os._exit(7),
    "is_killed": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "segfaults": lambda _: os.kill(os.getpid(), signal.SIGSEGV),
    "hangs": hangs,
    "raises": lambda _: fatal("failed"),
    "runs_out_of_memory": lambda _: fatal("out_of_memory"),
    "writes_half_an_event_and_dies": half_an_event_and_death,
    "writes_half_an_event_and_hangs": half_an_event_and_silence,
    "loses_the_device": loses_the_device,
    "leaves_a_child": leaves_a_child,
    "stays_behind": stays_behind,
    "tries_the_lock": tries_the_lock,
    "waits_for_the_other_rank": waits_for_the_other_rank,
    "kills_the_session": kills_the_session,
}

if __name__ == "__main__":
    main()
