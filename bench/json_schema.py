"""Our JSON Schema validator against `jsonschema` and `jsonschema-rs`: speed, conformance, safety, size.

    python bench/json_schema.py

Peers that are not installed are left out. Reads the corpora where they are (WESICHAIN_CORPORA).
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CORPORA = Path(
    os.environ.get("WESICHAIN_CORPORA") or Path(__file__).resolve().parents[2] / "shared" / "corpora"
)
Compile = Callable[[Any], Callable[[Any], bool]]

HOSTILE = {
    "remote $ref": ({"$ref": "REMOTE"}, 1),
    "self reference": ({"$ref": "#"}, 1),
    "2^60 ways": (
        {
            "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
            | {"d60": False},
            "$ref": "#/$defs/d0",
        },
        1,
    ),
    "(a+)+$": ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
    "(?=a)(a+)+$": ({"pattern": "^(?=a)(a+)+$"}, "a" * 40 + "!"),
    "value 100,000 deep": ({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, "DEEP"),
}


def ours() -> Compile:
    from wesichain.tools.json_schema.compile import compile_schema

    def compile_(schema: Any) -> Callable[[Any], bool]:
        validator = compile_schema(schema)
        return lambda value: not validator.issues(value)

    return compile_


def peer_jsonschema() -> Compile:
    import jsonschema  # type: ignore[import-untyped, unused-ignore]  # a peer

    def compile_(schema: Any) -> Callable[[Any], bool]:
        jsonschema.Draft202012Validator.check_schema(schema)
        valid: Callable[[Any], bool] = jsonschema.Draft202012Validator(schema).is_valid
        return valid

    return compile_


def peer_jsonschema_rs() -> Compile:
    import jsonschema_rs  # type: ignore[import-not-found, unused-ignore]  # a peer, seldom installed

    def compile_(schema: Any) -> Callable[[Any], bool]:
        valid: Callable[[Any], bool] = jsonschema_rs.Draft202012Validator(schema).is_valid
        return valid

    return compile_


CANDIDATES = {
    "wesichain": (ours, "wesichain.tools.json_schema.compile", []),
    "jsonschema": (
        peer_jsonschema,
        "jsonschema",
        ["jsonschema", "attrs", "referencing", "rpds-py", "jsonschema-specifications"],
    ),
    "jsonschema-rs": (peer_jsonschema_rs, "jsonschema_rs", ["jsonschema-rs"]),
}


def rows(name: str) -> list[dict[str, Any]]:
    path = CORPORA / name
    return [json.loads(line) for line in path.open(encoding="utf-8")] if path.is_file() else []


def conformance(compile_: Compile) -> str:
    right, suite = 0, rows("json_schema_2020.jsonl")
    for row in suite:
        try:
            right += compile_(row["schema"])(row["data"]) is row["valid"]
        except Exception:
            continue
    return f"{right}/{len(suite)}"


def speed(compile_: Compile) -> tuple[float, float]:
    """CPU microseconds to compile a schema, and to validate a call, over the function schemas."""
    tools = rows("bfcl_tools.jsonl")
    start = time.process_time()
    compiled = [(compile_(row["schema"]), row["valid_call"]) for row in tools]
    compiling = (time.process_time() - start) / max(1, len(tools)) * 1e6
    rounds: list[float] = []
    for _ in range(7):
        start = time.process_time()
        for valid, call in compiled:
            valid(call)
        rounds.append((time.process_time() - start) / max(1, len(tools)) * 1e6)
    return compiling, statistics.median(rounds)


def import_cost(module: str) -> float:
    """CPU milliseconds that importing a module adds to `import wesichain`."""

    def cpu(statement: str) -> float:
        program = (
            f"import time, wesichain; start = time.process_time(); {statement}; "
            f"print(time.process_time() - start)"
        )
        command = [sys.executable, "-c", program]
        runs = [subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(5)]
        return min(float(run.stdout or "nan") for run in runs) * 1000

    return cpu(f"import {module}")


def size(distributions: list[str]) -> float:
    """Megabytes of files."""
    files = [file for name in distributions for file in importlib.metadata.files(name) or ()]
    return (
        sum(Path(str(file.locate())).stat().st_size for file in files if Path(str(file.locate())).is_file())
        / 1e6
    )


def safety(name: str) -> dict[str, str]:
    """The results for hostile schemas and values, each in its own process."""
    verdicts: dict[str, str] = {}
    for attack in HOSTILE:
        command = [sys.executable, __file__, "--attack", name, attack]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
            verdicts[attack] = run.stdout.strip() or f"dies ({run.returncode})"
        except subprocess.TimeoutExpired:
            verdicts[attack] = "hangs"
    return verdicts


def attack(name: str, which: str) -> None:
    schema, value = HOSTILE[which]
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    threading.Thread(target=_tell_of_visitors, args=(listener,), daemon=True).start()
    if schema == {"$ref": "REMOTE"}:
        schema = {"$ref": f"http://127.0.0.1:{listener.getsockname()[1]}/schema"}
    if value == "DEEP":
        value = []
        for _ in range(100_000):
            value = [value]
    try:
        verdict = "valid" if CANDIDATES[name][0]()(schema)(value) else "invalid"
    except Exception as error:
        verdict = type(error).__name__
    print(verdict, flush=True)
    os._exit(0)  # deallocating a value of that depth takes long


def _tell_of_visitors(listener: socket.socket) -> None:
    while True:
        try:
            visitor, _ = listener.accept()
        except TimeoutError:
            continue
        print("fetches it", flush=True)
        visitor.close()
        os._exit(0)


def main() -> None:
    if sys.argv[1:2] == ["--attack"]:
        attack(sys.argv[2], sys.argv[3])
    for name, (load, module, distributions) in CANDIDATES.items():
        try:
            compile_ = load()
        except ImportError:
            print(f"{name}: not installed")
            continue
        compiling, checking = speed(compile_)
        print(f"{name}")
        print(f"  suite            {conformance(compile_)}")
        print(f"  compile a schema {compiling:8.1f} us")
        print(f"  check a call     {checking:8.1f} us")
        print(f"  import           {import_cost(module):8.1f} ms of CPU")
        print(f"  distributions    {len(distributions)}, {size(distributions):.1f} MB")
        for attack_name, verdict in safety(name).items():
            print(f"  {attack_name:18} {verdict}")


if __name__ == "__main__":
    main()
