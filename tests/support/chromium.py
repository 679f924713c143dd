"""A page in headless Chromium: opened, asked, clicked, drawn, over the browser's debugging pipe."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAM = shutil.which("chromium")
_SECONDS = 60  # for an answer


class Page:
    """One page. `problems` are errors and warnings of its console, and exceptions."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._last = 0
        self._received = b""
        self._session: str | None = None
        self.problems: list[str] = []

    def open(self, path: Path, width: int = 1300, height: int = 900, dark: bool = False) -> None:
        """Load a file and wait until it says that it is ready."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target,
                                  flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self._ask(f"{domain}.enable")
        self._ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.resize(width, height)
        self._ask("Page.navigate", url=path.as_uri())
        end = time.monotonic() + _SECONDS
        while not self.evaluate("document.documentElement?.dataset.ready || ''"):
            if time.monotonic() > end or self.problems:
                raise TimeoutError(f"{path} does not get ready: {self.problems}")
            time.sleep(0.02)

    def resize(self, width: int, height: int) -> None:
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def evaluate(self, script: str):
        """Return what an expression is, as JSON has it."""
        result = self._ask("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def center(self, selector: str) -> tuple[float, float]:
        """Scroll an element into sight, and return where it is."""
        x, y = self.evaluate(f"""(() => {{
            const found = document.querySelector({json.dumps(selector)});
            found.scrollIntoView({{block: "center"}});
            const box = found.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        return x, y

    def click(self, selector: str) -> None:
        at = self.center(selector)
        self.drag(at, at)

    def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Press at one point, and let go at another."""
        middle = tuple((a + b) / 2 for a, b in zip(begin, end, strict=True))
        for kind, (x, y) in (("mouseMoved", begin), ("mousePressed", begin),
                             ("mouseMoved", middle), ("mouseMoved", end), ("mouseReleased", end)):
            self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                      buttons=1, clickCount=1)

    def screenshot(self, path: Path) -> None:
        data = self._ask("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def _ask(self, method: str, **parameters) -> dict:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _receive(self) -> dict:
        while b"\0" not in self._received:
            if not select.select([self._answers], [], [], _SECONDS)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise EOFError("the browser has ended")
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"])[:1000])
        elif event.get("method") == "Runtime.consoleAPICalled":
            if parameters["type"] in ("error", "warning", "assert"):
                self.problems.append(json.dumps(parameters["args"])[:1000])
        elif event.get("method") == "Log.entryAdded":
            if parameters["entry"]["level"] in ("error", "warning"):
                self.problems.append(parameters["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:")):
                self.problems.append(f"asks for {url}")


@contextlib.contextmanager
def page() -> Iterator[Page]:
    """Start the browser; end it with the block."""
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--no-first-run", "--disable-background-networking",
                   f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        browser = subprocess.Popen(["bash", "-c", script, "bash", str(PROGRAM), *options],
                                   pass_fds=(to_browser, from_browser),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        try:
            yield Page(commands, answers)
        finally:
            os.close(commands)
            os.close(answers)
            browser.terminate()
            browser.wait(_SECONDS)
