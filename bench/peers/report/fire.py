"""The trial by fire as tables: what each contestant came to, with its usual and its best settings."""

from __future__ import annotations

from collections.abc import Sequence

from bench.fire.faults import BEST, FAULTS, MANY, Fault
from bench.fire.run import OBSERVING, verdict
from bench.peers.environments import OURS
from bench.peers.results import Cell, Results

from .words import paragraphs, table

VERDICTS = {
    "recovered": "recovered",
    "visible": "visible",
    "words": "in words",
    "silent": "silent",
    "running": "still running",
}

FIRE = f"""\
## Behaviour under fire

Each framework, with its own OpenAI client, talks to a chat completions server on loopback that misbehaves in
one way, once or always. Once means that the model behaves well from the second request on: the run can
recover. Always means that it cannot, so that the caller should be told. The tools are async functions, but
for those who take sync ones alone.

- recovered: the right answer came after all.
- visible: an exception, or a typed sign in the result (a status, a stop reason).
- in words: a text that says that it failed, such as the model's own “I could not finish.”; a reader sees it,
  a program does not.
- silent: what looks like success and is none: the text of a good answer, or an empty one, without a sign.
- still running: stopped after {MANY} requests, or after 30 s without one (five minutes where the
  provider fails, since some wait long before they try again).

The slow tool takes a minute; a limit of one second was set wherever the framework has a setting for tools,
steps or runs. The first row of each has its usual settings, the second the best that its documentation
offers for this, as settings: what a user would have to write as code of their own (a hook, a subclass) is
not counted, for them or for us. Six of the twelve faults come once, so that six is the most that can be
recovered from."""


def fire(results: Results) -> str:
    calls = [fault for fault in FAULTS if fault.status == 200]
    provider = [fault for fault in FAULTS if fault.status != 200]
    note, matrices = results.get("fire_note", ""), [_matrix(results, faults) for faults in (calls, provider)]
    return paragraphs(FIRE, note, _counted(results), _settings(results), *matrices)


def tally(results: Results) -> dict[str, dict[str, int]]:
    """How often each row came to each verdict."""
    return {
        name: {kind: [*verdicts(cells)].count(kind) for kind in VERDICTS}
        for name, cells in results["fire"].items()
    }


def verdicts(cells: dict[str, Cell]) -> list[str]:
    return [verdict(fault, cells[fault.name]) for fault in FAULTS if fault.name in cells]


def _title(results: Results, name: str) -> str:
    if name == OBSERVING.name:
        return "Wesichain, best settings"
    entry = results["contestants"].get(name.removesuffix(BEST))
    title = entry["title"] if entry else name
    return f"{title}, best settings" if name.endswith(BEST) else title


def _named(results: Results, name: str) -> str:
    title = _title(results, name)
    return f"**{title}**" if name.startswith(OURS.name) else title


def _counted(results: Results) -> str:
    found = tally(results)
    body = [
        [_named(results, name), *(str(counts[kind]) for kind in VERDICTS)] for name, counts in found.items()
    ]
    return table(["", *VERDICTS.values()], body)


def _settings(results: Results) -> str:
    """What the second rows set."""
    lines = ["- Wesichain: `policy=ObserveErrors()`"] if OBSERVING.name in results["fire"] else []
    for name in results["fire"]:
        entry = results["contestants"].get(name.removesuffix(BEST))
        if name.endswith(BEST) and entry and (best := entry.get("best")):
            lines.append(f"- {entry['title']}: {best}")
    return "The best settings:\n\n" + "\n".join(lines) if lines else ""


def _matrix(results: Results, faults: Sequence[Fault]) -> str:
    body = [
        [
            _named(results, name),
            *(_ending(fault, cells[fault.name]) if fault.name in cells else "" for fault in faults),
        ]
        for name, cells in results["fire"].items()
    ]
    return table(["", *(fault.title for fault in faults)], body)


def _ending(fault: Fault, cell: Cell) -> str:
    """What the caller saw, and what it cost."""
    requests = f"{cell['requests']} request" + ("" if cell["requests"] == 1 else "s")
    cost = f"<br><sub>{requests}</sub>"
    match verdict(fault, cell):
        case "recovered":
            return f"recovered{cost}"
        case "running":
            return f"**still running**{cost}"
        case "words":
            return f"“{cell['detail'].strip()}”{cost}"
        case "silent":
            said = cell["detail"].strip()
            return f"**silent**: “{said}”{cost}" if said else f"**silent**: empty{cost}"
        case _:
            return f"`{cell['detail']}`{cost}"
