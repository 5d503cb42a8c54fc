"""The explorer: its numbers, its speed, as a script, and in a real browser."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
EXPLORER = EXAMPLES / "explorer.py"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--remote-debugging-port=0"
).split()
POINT = {"gamma": 1.0, "p/n": 10**-0.6, "SNR": 1.0}

needs_marimo = pytest.mark.skipif(
    importlib.util.find_spec("marimo") is None, reason="marimo is not installed (extra: notebook)"
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def explorer() -> Any:
    pytest.importorskip("marimo", reason="marimo is not installed (extra: notebook)")
    sys.path.insert(0, str(EXAMPLES))
    try:
        import explorer

        return explorer
    finally:
        sys.path.remove(str(EXAMPLES))


def explore(explorer: Any, f: Any, angle: float = 0) -> Any:
    mu, w_k, w_q = explorer.place(snr=1, w_k=1, w_q=1, angle_k=angle, angle_q=0, around=0)
    return explorer.explore(f, gamma=1, ratio=POINT["p/n"], mu=mu, w_k=w_k, w_q=w_q)


def test_numbers_are_those_of_the_package(explorer: Any) -> None:
    from rmtsym import attention_error, regression_error

    f, problem = explorer.read("Min(exp(t), 5)")
    assert problem is None
    attention, regression, curves, plane = explore(explorer, f, 60)
    weights = {"w_k": [0.5, 0.75**0.5], "w_q": [1, 0]}
    expected = attention_error(f, ratio=POINT["p/n"], gamma=1, mu=[1, 0], **weights)
    assert attention == pytest.approx(expected, rel=1e-9)
    assert regression == pytest.approx(regression_error(ratio=POINT["p/n"], gamma=1, snr=1))
    x, along, _ = curves["gamma"]
    expected = attention_error(f, ratio=POINT["p/n"], gamma=x, mu=[1, 0], **weights)
    assert along == pytest.approx(expected, rel=1e-9)
    c, snr, quotient = (a[3, 5] for a in plane)
    expected = attention_error(f, ratio=c, gamma=1, mu=[snr**0.5, 0], **weights)
    assert quotient == pytest.approx(expected / regression_error(ratio=c, gamma=1, snr=snr))


def test_lengths_and_angles(explorer: Any) -> None:
    mu, w_k, w_q = explorer.place(snr=4, w_k=2, w_q=3, angle_k=60, angle_q=90, around=90)
    assert (mu @ mu, w_k @ w_k, w_q @ w_q) == pytest.approx((4, 4, 9))
    assert (mu @ w_k, mu @ w_q, w_k @ w_q) == pytest.approx((2, 0, 0))


@pytest.mark.parametrize("text", ["", "foo(t)", "exp(t^2)", "__import__('os')", "t +"])
def test_bad_formula_is_a_message(explorer: Any, text: str) -> None:
    f, problem = explorer.read(text)
    assert f is None and problem


def test_pictures_and_formulas(explorer: Any) -> None:
    f, _ = explorer.read("sin(3*t)")
    errors = explorer.draw_errors(explore(explorer, f, 10), POINT)
    for figure in (errors, explorer.draw_expansion(f)):
        assert explorer.png(figure).startswith(b"\x89PNG")
    assert r"a_1 &= \frac{3}{e^{\frac{9}{2}}} \approx 0.033327" in explorer.formulas(f)


@needs_marimo
def test_as_a_script() -> None:
    done = subprocess.run(
        [sys.executable, str(EXPLORER)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


# -- in the browser, over its debugging protocol

DEEP = """
(() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap(
    (e) => e.shadowRoot ? [e, ...all(e.shadowRoot)] : [e]);
  return all(document);
})()
"""
TEXT = f"""
{DEEP}.flatMap((e) => ["STYLE", "SCRIPT"].includes(e.tagName) ? [] : [...e.childNodes])
  .filter((e) => e.nodeType === 3 && e.textContent.trim()).map((e) => e.textContent.trim())
  .join("\\n")
"""

PICTURES = f"{DEEP}.filter((e) => e.tagName === 'IMG' && e.naturalWidth > 300).length"


def wait_for(what: Callable[[], Any], described: str, seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited {seconds} s for {described}")


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def process(*command: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log.open("wb") as stream,
        subprocess.Popen(
            command, stdout=stream, stderr=stream, env={**os.environ, "HOME": str(log.parent)}
        ) as started,
    ):
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()


class Page:
    """A page of a browser, driven over its debugging protocol."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.numbers = itertools.count()

    def call(self, method: str, **parameters: Any) -> Any:
        number = next(self.numbers)
        self.connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.connection.recv(timeout=60))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def evaluate(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def number(self, label: str) -> float | None:
        """The number below a label."""
        for name, value in itertools.pairwise(self.evaluate(TEXT).splitlines()):
            if name == label:
                return float(value)
        return None


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    sync = pytest.importorskip("websockets.sync.client", reason="websockets is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    profile = tmp_path / "profile"
    marimo = (sys.executable, "-m", "marimo", "run", str(EXPLORER))
    with ExitStack() as stack:
        log = tmp_path / "marimo.log"
        options = ("--headless", "--no-token", "--host", "127.0.0.1", "--port", str(port))
        stack.enter_context(process(*marimo, *options, log=log))
        wait_for(lambda: answers(f"{url}/health"), "marimo")
        stack.enter_context(
            process(str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", url, log=tmp_path / "log")
        )
        active = profile / "DevToolsActivePort"
        wait_for(lambda: active.exists() and active.read_text().strip(), "chromium")
        debugging = f"http://127.0.0.1:{active.read_text().split()[0]}/json/list"

        def address() -> str | None:
            with urllib.request.urlopen(debugging, timeout=10) as response:
                pages = [p for p in json.load(response) if p["url"].startswith(url)]
            return pages[0]["webSocketDebuggerUrl"] if pages else None

        found = wait_for(address, "the page")
        yield Page(stack.enter_context(sync.connect(found, max_size=2**26, proxy=None)))


@needs_marimo
@needs_chromium
def test_in_a_browser(page: Page) -> None:
    from rmtsym import attention_error

    before = wait_for(lambda: page.number("attention"), "the numbers")
    settings = {"ratio": POINT["p/n"], "mu": [1], "w_k": [1], "w_q": [1]}
    assert before == pytest.approx(attention_error("tanh(t)", gamma=1, **settings), abs=1e-5)
    wait_for(lambda: page.evaluate(f"{PICTURES} >= 2"), "both pictures")

    page.evaluate(f"{DEEP}.find((e) => e.getAttribute('role') === 'slider').focus()")
    page.press("ArrowRight", 39)
    after = wait_for(lambda: (x := page.number("attention")) != before and x, "a new number")
    expected = attention_error("tanh(t)", gamma=10**0.1, **settings)
    assert after == pytest.approx(expected, abs=1e-5)

    page.evaluate(f"{DEEP}.find((e) => e.tagName === 'INPUT' && e.value === 'tanh(t)').focus()")
    page.evaluate("document.execCommand('selectAll')")
    page.call("Input.insertText", text="foo(t)")
    page.press("Enter", 13)
    wait_for(lambda: "unknown function foo" in page.evaluate(TEXT), "the error message")
