"""What may happen to a measuring session: signals, full disks, damaged bytes, a second session."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import psutil

from roofcal.measure.session import Job
from tests.paths import ROOT
from tests.roofcal.measure.runs import Run

_PATIENCE_S: Final = 600.0


@dataclass
class Scene:
    """One run that is disturbed: its job, its sessions so far, and where chance comes from."""

    run: Run
    job: Job
    chance: Random
    sessions: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *prefix: str, temporary: str | None = None) -> None:
        """Start a session; `prefix` is a command that runs it with fewer means."""
        environment = os.environ | ({"TMPDIR": temporary} if temporary else {})
        command = [*prefix, sys.executable, *self.run.program(self.job)]
        with (self.run.folder / "said").open("ab") as log:
            session = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self.sessions.append(session)

    def start_and_wait_for_moment(self) -> subprocess.Popen[bytes]:
        """A session that has measured a random number of points, and a random while of the next."""
        self.start()
        points = self.chance.randrange(len(self.job.plan.read_bytes().splitlines()))
        deadline = time.monotonic() + _PATIENCE_S
        while len(self.run.trace) < points and self.sessions[-1].poll() is None:
            assert time.monotonic() < deadline, "the session does not go on"
            time.sleep(0.005)
        time.sleep(self.chance.random() * 0.04)
        return self.sessions[-1]

    def wait(self) -> None:
        """Until every session has ended; fails where one does not end by itself."""
        for session in self.sessions:
            session.wait(timeout=_PATIENCE_S)


def signalled(number: signal.Signals) -> Callable[[Scene], None]:
    """A session that gets a signal at a random moment."""
    return lambda scene: scene.start_and_wait_for_moment().send_signal(number)


def worker_killed(scene: Scene) -> None:
    """The kernel kills the worker, as for want of memory."""
    session = scene.start_and_wait_for_moment()
    with suppress(psutil.NoSuchProcess):
        for worker in psutil.Process(session.pid).children():
            worker.kill()


def killed_and_restarted_at_once(scene: Scene) -> None:
    """`kill -9`, and the next session starts while the worker of the first may live."""
    signalled(signal.SIGKILL)(scene)
    scene.start()


def second_session(scene: Scene) -> None:
    """Two sessions at once, the second with other temporary files, as on another login."""
    scene.start_and_wait_for_moment()
    scene.start(temporary=str(scene.run.folder / "other"))


def lock_file_deleted(scene: Scene) -> None:
    """Somebody tidies up the lock file under its holder, and starts a second session."""
    scene.start_and_wait_for_moment()
    scene.job.journal.with_name(f".{scene.job.journal.name}.lock").unlink(missing_ok=True)
    scene.start()


def stopped_and_continued(scene: Scene) -> None:
    """Ctrl-Z, another session meanwhile, and `fg`."""
    stopped = scene.start_and_wait_for_moment()
    stopped.send_signal(signal.SIGSTOP)
    scene.start()
    time.sleep(0.5)
    stopped.send_signal(signal.SIGCONT)


def disk_full(scene: Scene) -> None:
    """No file can grow beyond a random size: a point in its journal is cut off."""
    scene.start("prlimit", f"--fsize={scene.chance.randrange(500, 6000)}")


def damaged(bytes_at: Callable[[Random, bytes], bytes]) -> Callable[[Scene], None]:
    """A journal that is damaged after a kill."""

    def disturb(scene: Scene) -> None:
        signalled(signal.SIGKILL)(scene)
        scene.wait()
        journal: Path = scene.job.journal
        if journal.exists():
            journal.write_bytes(bytes_at(scene.chance, journal.read_bytes()))

    return disturb


def _byte_inserted(chance: Random, content: bytes) -> bytes:
    place = chance.randrange(len(content) + 1)
    return content[:place] + b"\xff" + content[place:]


DISTURBANCES: Final[dict[str, Callable[[Scene], None]]] = {
    "kill -9 of the session": signalled(signal.SIGKILL),
    "SIGTERM (a time limit)": signalled(signal.SIGTERM),
    "Ctrl-C": signalled(signal.SIGINT),
    "SIGHUP (a closed terminal)": signalled(signal.SIGHUP),
    "kill -9 of the worker": worker_killed,
    "kill -9 and the next session at once": killed_and_restarted_at_once,
    "a second session, other TMPDIR": second_session,
    "the lock file deleted, a second session": lock_file_deleted,
    "Ctrl-Z, a second session, fg": stopped_and_continued,
    "a full disk": disk_full,
    "a byte 0xff at the start of the journal": damaged(lambda _, content: b"\xff" + content),
    "a byte 0xff anywhere in the journal": damaged(_byte_inserted),
    "half a line at the end": damaged(lambda _, content: content + b'{"record":"Measu'),
    "4 KiB of NUL at the end": damaged(lambda _, content: content + bytes(4096)),
    "a truncated last line with a newline": damaged(lambda _, content: content[:-9] + b"\n"),
}
