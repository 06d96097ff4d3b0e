"""A server written by hand, without the SDK, that misbehaves as its first argument says."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

HOW = sys.argv[1]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def tool(name: str, schema: dict[str, Any] = TEXT, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **more}


LISTS = {
    "wrong-root": [tool("fine"), tool("bad", {"type": "array"})],
    "wrong-schema": [tool("fine"), tool("bad", {"type": "object", "properties": {"text": {"pattern": "("}}})],
    "twice": [tool("fine"), tool("fine", {"type": "object"}), tool("other")],
    "odd-names": [tool("get/it"), tool("get_it"), tool("get it"), tool("1st"), tool("é"), tool("x" * 100)],
}
N = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
if HOW == "says-too-much":
    red = {"type": "string", "description": "\x1b[31mred\x1b[0m and \x07loud"}
    LISTS[HOW] = [
        tool("wordy") | {"description": "\x1b[1m" + "x" * 2_000_000},
        tool("huge-schema", {"type": "object", "description": "x" * 300_000}),
        *(tool(f"tool{n}", {"type": "object", "properties": {"text": red}}) for n in range(1_998)),
    ]
ALONE = ("text", "blocks", "error", "no-result", "huge", "huge-data", "leaks", "is-noisy", "complains")
LISTS["many"] = [  # each misbehaves in a way of its own, and none disturbs the others
    *(tool(name) for name in (*ALONE, "refuses", "breaks")),
    tool("declared", outputSchema=N),
]
PNG = {"type": "image", "data": "AAAA" * 100, "mimeType": "image/png"}
LINK = {"type": "resource_link", "name": "notes", "uri": "file:///notes.txt"}
BLOB = {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}}
FILE = {"type": "resource", "resource": {"uri": "file:///t", "text": "inside"}}


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


RESULTS: dict[str, Any] = {
    "text": {"content": [say("hello")]},
    "blocks": {"content": [say("one"), PNG, LINK, FILE, BLOB, say("two")]},
    "declared": {"content": [say("many")], "structuredContent": {"n": "many"}},
    "error": {"content": [say("the disk is full")], "isError": True},
    "no-result": {"what": "ever"},
    "huge": {"content": [say("x" * 5_000_000)]},
    "huge-data": {"content": [], "structuredContent": {"n": "x" * 1_000_000}},
    "leaks": {"content": [say(f"the key is {os.environ.get('API_KEY')}")], "isError": True},
}


def write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def send(number: Any, **what: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": number, **what}))


def say_so() -> None:
    """That it has come to where it waits."""
    if "THERE" in os.environ:
        Path(os.environ["THERE"]).touch()


def start() -> None:
    match HOW:
        case "handshake-or-end":
            with Path(os.environ["STARTS"]).open("a", encoding="utf-8") as starts:
                starts.write("x")
        case "ends":
            sys.exit("cannot read its configuration")
        case "leaks-and-ends":
            sys.exit(f"cannot log in with {os.environ['API_KEY']}")
        case "prints-for-ever":
            write("y")
            say_so()
            while True:
                write("y\n" * 300)
                time.sleep(0.01)
        case "never-ends-its-line":
            while True:
                sys.stdout.write("x" * 65536)
        case "waits":
            say_so()
            time.sleep(600)
        case "has-a-stubborn-child" | "is-stubborn":
            code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
            import subprocess  # no other server pays for it

            child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL)
            Path(os.environ["PIDS"]).write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
        case _:
            pass


def call(number: Any, how: str) -> None:
    match how:
        case "dies":
            sys.stderr.write("out of memory\n")
            os._exit(7)
        case "hangs":
            if "NOTES" in os.environ:
                Path(os.environ["NOTES"]).write_text("called", encoding="utf-8")
        case "stops-reading":
            os.close(0)
            time.sleep(600)
        case "complains":
            sys.stderr.write("warning: " * 1_000_000)
            send(number, result=RESULTS["text"])
        case "is-noisy":
            write("thinking...")
            write('{"not": "a message"}')
            send(99, result={})
            send(number, result=RESULTS["text"])
        case "too-huge":
            send(number, result={"content": [say("x" * 20_000_000)]})
        case "refuses":
            send(number, error={"code": -32602, "message": "text is not a haiku"})
        case "breaks":
            send(number, error={"code": -32603, "message": "internal trouble"})
        case _:
            send(number, result=RESULTS.get(how, RESULTS["text"]))


def listed(number: Any, params: dict[str, Any]) -> None:
    tools = LISTS.get(HOW, [tool("fine")])
    page = int(params.get("cursor") or 0)
    if HOW == "pages":
        more = {"nextCursor": str(page + 1)} if page < 2 else {}
        send(number, result={"tools": [tool(f"tool{page}")], **more})
    elif HOW == "endless-pages":
        send(number, result={"tools": [tool(f"tool{page}")], "nextCursor": str(page + 1)})
    elif HOW == "lists-nothing":
        say_so()
    else:
        send(number, result={"tools": tools})
        if HOW == "turns-deaf":
            time.sleep(600)


def main() -> None:
    start()
    for line in sys.stdin:
        message = json.loads(line)
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if HOW == "handshake-or-end" and method == "server/discover":
            sys.exit(1)
        if method == "initialize":
            info = {"name": "raw", "version": "1"}
            version = os.environ.get("VERSION", params["protocolVersion"])
            send(
                number, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            )
        elif method == "tools/list":
            listed(number, params)
        elif method == "tools/call":
            call(number, params["name"] if HOW == "many" else HOW)
        elif method == "notifications/cancelled" and "NOTES" in os.environ:
            Path(os.environ["NOTES"]).write_text("cancelled", encoding="utf-8")
        elif number is not None:
            send(number, error={"code": -32601, "message": f"no method {method}"})
    if HOW == "is-stubborn":
        time.sleep(600)


if __name__ == "__main__":
    main()
