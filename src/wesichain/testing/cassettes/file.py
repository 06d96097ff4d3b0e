"""The file of a cassette: the runs of a test as JSON Lines, which are identical if nothing has changed.

    {"kind":"cassette","version":1}
    {"kind":"run_started",...}      one event per line; each run starts with a RunStarted that is not a resume

The pieces of streamed replies are left out, since each reply is complete. Times, durations and sequence
numbers are left out, since they differ between recordings. Random ids are replaced by `run-1`, `run-2` and so
on, tokens by `token-1` and so on. The events of concurrent calls are sorted by call, in the order of the
reply that made the calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from wesichain.core import Event
from wesichain.core.internal import dump_json, from_plain, is_array, is_object, parse_json, to_plain
from wesichain.errors import CodecError
from wesichain.trace import Recording

VERSION = 1
_VOLATILE = ("run_id", "seq", "at", "duration_ms", "seconds")
_DRAWN = re.compile(r"[0-9a-f]{32}")
_TIMED = {"model_responded": "duration_ms", "tool_completed": "duration_ms"}  # fields that are restored as 0
_EPOCH = 1_700_000_000.0
_PIECES = ("text_delta", "output_delta")
_OF_CALLS = ("tool_dispatched", "tool_progress", "tool_completed", "step_failed")


def is_cassette(path: Path) -> bool:
    """Whether the first line of a file is the head of a cassette."""
    try:
        with path.open("rb") as file:
            head = parse_json(file.readline())
    except (OSError, CodecError):
        return False
    return is_object(head) and head.get("kind") == "cassette"


def read_cassette(path: Path) -> tuple[Recording, ...]:
    """Read the runs of a cassette as recordings. Another file raises a `CodecError`."""
    if not is_cassette(path):
        raise CodecError(f"{path} is not a cassette: its first line is not the head of one")
    head, *lines = (
        path.read_bytes().removesuffix(b"\n").split(b"\n")
    )  # not `splitlines`: a text may have more
    plain: Any = parse_json(head)
    if plain.get("version") != VERSION:
        raise CodecError(
            f"{path} has version {plain.get('version')} of the format; this wesichain reads {VERSION}"
        )
    runs: list[list[Mapping[str, Any]]] = []
    for line in lines:
        event: Any = parse_json(line)
        if not runs or _begins(event):
            runs.append([])
        runs[-1].append(event)
    return tuple(_recording(f"run-{number}", events) for number, events in enumerate(runs, start=1))


def _recording(run_id: str, lines: Iterable[Mapping[str, Any]]) -> Recording:
    events: list[Event] = []
    for seq, line in enumerate(lines, start=1):
        timed = {_TIMED[line["kind"]]: 0.0} if line["kind"] in _TIMED else {}
        event: Any = from_plain(Event, {**line, **timed, "run_id": run_id, "seq": seq, "at": _EPOCH})
        events.append(event)
    return Recording(run_id, tuple(events))


def _begins(event: Mapping[str, Any]) -> bool:
    return event["kind"] == "run_started" and not event.get("scope") and not event.get("resumed")


def write_cassette(path: Path, runs: Iterable[Sequence[Event]]) -> None:
    """Write runs in the stable form; each is a sequence of the events of all its parts."""
    lines = [dump_json({"kind": "cassette", "version": VERSION})]
    tokens: dict[str, str] = {}
    for number, events in enumerate(runs, start=1):
        plain: list[Any] = [to_plain(event) for event in events if event.kind not in _PIECES]
        run_id = events[0].run_id
        drawn = _DRAWN.search(run_id)
        for event in in_order(plain):
            for one in (*event.get("pending", ()), *event.get("decisions", ())):
                tokens.setdefault(one["token"], f"token-{len(tokens) + 1}")
            kept = {name: value for name, value in event.items() if name not in _VOLATILE}
            if kept.get("own_id", "").startswith(f"{run_id}:"):  # of an inner run
                kept["own_id"] = f"run-{number}{kept['own_id'].removeprefix(run_id)}"
            line = dump_json(_without(kept, "expires_at"))
            if drawn is not None:
                line = line.replace(drawn[0], f"run-{number}")
            for token, name in tokens.items():
                line = line.replace(token, name)
            lines.append(line)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _without(value: Any, name: str) -> Any:
    if is_object(value):
        return {key: _without(one, name) for key, one in value.items() if key != name}
    return [_without(one, name) for one in value] if is_array(value) else value


# --- the order of concurrent events ----------------------------------------------------------------------


def in_order(events: Sequence[Mapping[str, Any]], scope: str = "") -> list[Mapping[str, Any]]:
    """Sort the events of a run as if its calls, and those of inner runs, had run one after the other."""
    ordered: list[Mapping[str, Any]] = []
    asked: dict[str, int] = {}
    calls: dict[str, list[Mapping[str, Any]]] = {}

    def flush() -> None:
        for call in sorted(calls, key=lambda call: asked.get(call, len(asked))):
            ordered.extend(_call_in_order(calls[call], scope))
        calls.clear()

    for event in events:
        call = _call_of(event, scope)
        if call is not None:
            calls.setdefault(call, []).append(event)
            continue
        flush()
        ordered.append(event)
        if event["kind"] == "model_responded":
            asked = {one["id"]: place for place, one in enumerate(event["response"].get("tool_calls", ()))}
    flush()
    return ordered


def _call_of(event: Mapping[str, Any], scope: str) -> str | None:
    """The call of the run in this scope that an event belongs to; None if it belongs to the run itself."""
    inner: str = event.get("scope", "")
    if inner == scope:
        call: Any = event["call"]["id"] if event["kind"] == "tool_dispatched" else event.get("call_id")
        return call if event["kind"] in _OF_CALLS else None
    return call_in(inner, scope)


def call_in(inner: str, scope: str) -> str | None:
    """The call of the run in `scope` that contains the run in `inner`; None if there is none."""
    above = f"{scope}/" if scope else ""
    call = inner.removeprefix(above).partition("/")[0].partition("#")[0]
    is_inside = inner.startswith(above) and not call.startswith("~")  # "c/~2" is not inside the run "c"
    return call or None if is_inside else None


def _call_in_order(events: Sequence[Mapping[str, Any]], scope: str) -> list[Mapping[str, Any]]:
    """Sort the events of one call: its own, and between them its inner runs, one after the other."""
    ordered: list[Mapping[str, Any]] = []
    for is_own, group in groupby(events, lambda event: event.get("scope", "") == scope):
        if is_own:
            ordered.extend(group)
            continue
        runs: dict[str, list[Mapping[str, Any]]] = {}
        for event in group:
            runs.setdefault(_run_in(event["scope"], scope), []).append(event)
        for run in sorted(runs, key=_place_of_run):
            ordered.extend(in_order(runs[run], run))
    return ordered


def _run_in(inner: str, scope: str) -> str:
    """The scope of the outermost run inside a call of the run in `scope` that contains `inner`."""
    rest = inner.removeprefix(f"{scope}/") if scope else inner
    call, _, below = rest.partition("/")
    mark = below.partition("/")[0]
    name = f"{call}/{mark}" if mark.startswith("~") else call
    return f"{scope}/{name}" if scope else name


def _place_of_run(run: str) -> tuple[int, str]:
    mark = run.rpartition("/")[2]
    return (int(mark[1:]) if mark.startswith("~") and mark[1:].isdigit() else 1, run)
