"""One headless Chromium for all tests of pages, driven over its debugging pipe (CDP).

A process takes 1 to 3 s of CPU to start, a further page in it some 0.1 s. The pipe needs
no driver and no websocket: Chromium reads commands from descriptor 3 and writes answers to 4.
"""

import json
import os
import shutil
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.waiting import wait_until

CHROMIUM: Final = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_PATIENCE_S: Final = 120.0
# Descriptors 3 and 4 of the child are the pipe; bash moves them there, whatever numbers they have.
_WRAPPER: Final = 'exec "$@" 3<&"$IN" 4>&"$OUT"'


class BrowserError(RuntimeError):
    """Chromium refused a command, or a script in the page failed."""


class Browser:
    """A running Chromium with one page.

    errors    what the page wrote to the console as a warning or error, and uncaught exceptions
    requests  addresses that the page asked for, its own file not counted
    """

    def __init__(self, folder: Path) -> None:
        child_in, self._to = os.pipe()
        self._from, child_out = os.pipe()
        command = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu"]
        command += ["--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", _WRAPPER, "bash", *command],
            env=os.environ | {"IN": str(child_in), "OUT": str(child_out)},
            pass_fds=(child_in, child_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(child_in)
        os.close(child_out)
        self._buffer, self._number = b"", 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        wait_until(lambda: bool(self._pages()), "the first page of Chromium", _PATIENCE_S)
        target = self._pages()[0]["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _pages(self) -> list[dict[str, Any]]:
        targets: list[dict[str, Any]] = self.call("Target.getTargets")["targetInfos"]
        return [target for target in targets if target["type"] == "page"]

    def close(self) -> None:
        """End the process."""
        try:
            self.call("Browser.close")
        finally:
            self._process.wait(_PATIENCE_S)
            os.close(self._to)
            os.close(self._from)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command; raises BrowserError for one that is refused."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next_message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._from, 1 << 20)
            if not read:
                raise BrowserError("Chromium ended")
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        method, about = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            thrown = details.get("exception", {}).get("description")
            self.errors.append(thrown or details["text"])
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.errors.append(" ".join(str(one.get("value")) for one in about["args"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = about["request"]["url"]
            if about["type"] != "Document" and not url.startswith(("data:", "blob:")):
                self.requests.append(url)

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a page as if for the first time; done when its load event has run."""
        self.call("Page.navigate", url="about:blank")
        self.errors, self.requests = [], []
        self.call("Page.navigate", url=page.as_uri() + (f"#{fragment}" if fragment else ""))
        wait_until(self._is_loaded, f"{page} to load", _PATIENCE_S)

    def _is_loaded(self) -> bool:
        try:
            return bool(
                self.run("document.readyState === 'complete' && location.href !== 'about:blank'")
            )
        except BrowserError:  # the page before went while the question was on its way
            return False

    def run(self, expression: str) -> Any:
        """The JSON value of an expression, awaited; raises BrowserError if it throws."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true; fails after two minutes."""
        wait_until(lambda: bool(self.run(f"Boolean({expression})")), expression, _PATIENCE_S)

    def press(self, key: str) -> None:
        """A key as a person presses it: a name such as Tab, Enter or ArrowRight, or a character."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, " ": 32}
        code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        about = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def resize(self, width: int, height: int = 900) -> None:
        """The size of the window, CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """The colour scheme that the person prefers: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        """A picture of the window, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(b64decode(shot["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed, with the paper that its style sheet asks for."""
        printed = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        return b64decode(printed["data"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium that ends with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        chromium = Browser(Path(folder))
        try:
            yield chromium
        finally:
            chromium.close()
