"""A browser for the tests: a headless Chromium, driven through the DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import websocket

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0",
    "--renderer-process-limit=1", "--process-per-site",  # a process for each page is half of its cost
)  # fmt: skip
PATIENCE = 120.0  # seconds: the machine may be busy with fifteen other things


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    return found


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in `folder`."""
    port_file = folder / "DevToolsActivePort"
    process = subprocess.Popen(
        [chromium(), *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: port_file.exists() and port_file.read_text().strip())
        yield Browser(int(port_file.read_text().split()[0]))
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Browser:
    """Opens pages."""

    def __init__(self, port: int) -> None:
        self._port = port

    @contextmanager
    def page(self) -> Iterator[Page]:
        asked = urllib.request.Request(f"http://127.0.0.1:{self._port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(asked) as answer:
            address = json.load(answer)["webSocketDebuggerUrl"]
        socket = websocket.create_connection(address, timeout=PATIENCE, suppress_origin=True)
        try:
            page = Page(socket)
            yield page
            page.send("Page.close")
        finally:
            socket.close()


class Page:
    """One page, and what was seen of it: errors, dialogs, requests."""

    def __init__(self, socket: websocket.WebSocket) -> None:
        self._socket = socket
        self._last = 0
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._last:
                assert "error" not in message, message
                return dict(message["result"])
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"].get("exception", {}).get("description")))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.errors.append(str([arg.get("value") for arg in params["args"]]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Page.javascriptDialogOpening":
                self.dialogs.append(params["message"])
                self._last += 1
                answer = {
                    "id": self._last,
                    "method": "Page.handleJavaScriptDialog",
                    "params": {"accept": True},
                }
                self._socket.send(json.dumps(answer))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case _:
                pass

    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """Wait until the script gives something that is true: a value, or an element."""
        checked = f"(async found => (found = await found) instanceof Node || found)({script})"
        try:
            return until(lambda: self.evaluate(checked), what=script)
        except AssertionError as error:
            error.add_note(f"the page: {self.evaluate('document.body.innerText')}; its faults: {self.errors}")
            raise

    def text(self, selector: str = "main") -> str:
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def wait_for(self, text: str, selector: str = "main") -> None:
        place = f"(document.querySelector({json.dumps(selector)})?.innerText ?? '')"
        self.wait(f"{place}.includes({json.dumps(text)})")

    def click(self, selector: str) -> None:
        """A click of the mouse, in the middle of the element, once it stands still and nothing lies over it."""
        box = self.wait(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
            "const place = () => { const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; };"
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const before = place();"
            "await new Promise(done => setTimeout(done, 50)); const [x, y] = place();"
            "const there = document.elementFromPoint(x, y);"
            "const still = e.isConnected && before[0] === x && before[1] === y;"
            "return still && there && (e.contains(there) || there.contains(e)) ? [x, y] : null; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def look(self, *, width: int = 1100, height: int = 900, dark: bool = False) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        phone = width < 700
        screen = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        self.send("Emulation.setDeviceMetricsOverride", **screen)

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))


def until(look: Callable[[], Any], *, what: str = "the browser") -> Any:
    """What `look` gives as soon as it is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)
    return found
