"""The examples run and print the expected results; the calculator uses a server with OpenAI's protocol."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tests.conftest import ROOT
from tests.warm import python

EXAMPLES = sorted((ROOT / "examples").glob("graph_*.py"))
EXPECTED = {
    "graph_approval": ["waits for approval: [{'token':", "Ann has her money."],
    "graph_calculator": ["Observation(value=42.0", "It is 42."],
    "graph_console_observer": ["→ agent: population({'city': 'Oslo'})", "OSLO IS LARGER.", '["agent"]'],
    "graph_handoff": ["Your last bill was 20 euros."],
    "graph_parallel_research": ["The sun is a star. The moon is a satellite. Mars is a planet."],
    "graph_supervisor": ["heard from: supervisor/researcher-0", "ninety years"],
    "graph_tool_failure": [
        "failed: tool 'stock' failed: ConnectionError",
        "ErrorStep",
        "answered: I could not",
    ],
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.stem))
def test_an_example_is_short_and_runs(
    example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < 60
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    shown = capsys.readouterr().out
    for text in EXPECTED[example.stem]:
        assert text in shown


class ChatServer(BaseHTTPRequestHandler):
    """Adds, multiplies and answers, depending on the conversation so far, as a model would."""

    asked: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        results = [message for message in body["messages"] if message["role"] == "tool"]
        if len(results) < 2:
            name, args = [("add", {"a": 17, "b": 4}), ("multiply", {"a": 21, "b": 2})][len(results)]
            function = {"name": name, "arguments": json.dumps(args)}
            call = {"id": f"call_{len(results)}", "type": "function", "function": function}
            message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
        else:
            message = {"role": "assistant", "content": f"It is {results[-1]['content']}."}
        reply = json.dumps(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the log."""


def test_the_calculator_speaks_openais_protocol() -> None:
    asked: list[dict[str, Any]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (ChatServer,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        base = f"http://127.0.0.1:{server.server_port}/v1"
        done = subprocess.run(
            [*python(), str(ROOT / "examples" / "graph_calculator.py")],
            env={**os.environ, "OPENAI_BASE_URL": base, "OPENAI_API_KEY": "k"},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    finally:
        server.shutdown()
        server.server_close()
    assert done.stdout.rstrip().endswith("It is 42.0.")
    assert [[message["role"] for message in body["messages"]] for body in asked] == [
        ["system", "user"],
        ["system", "user", "assistant", "tool"],
        ["system", "user", "assistant", "tool", "assistant", "tool"],
    ]
    assert {tool["function"]["name"] for tool in asked[0]["tools"]} == {"add", "multiply"}
