"""What runs cost, as tables: async and sync tools told apart, and the lines that the README takes."""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers.environments import OURS, YARDSTICK
from bench.peers.results import Results

from .estimate import Estimate
from .figures import Row, late_at_least, ratio, rows_of
from .words import Format, paragraphs, seconds, size, table, times, with_interval

RUNS = """\
CPU time, median over the rounds, and the interval of the median below it. A hop is a model call that asks for
a tool, and the tool's run."""

SYNC = """\
Plain functions, as in most examples. Where they run matters more than what they cost: on the loop's own
thread one slow function stops every other run, in a thread it does not."""

CLIMBING = """\
A line that climbs is a run whose cost grows faster than its length: the whole history is copied, walked or
written anew at every step. The tools are async."""

HELD = """\
All runs are held at their last model call until every one has come so far; the memory is what the process
has then gained, divided by the number of runs. The tools are async."""

DAGGER = "† Its tools are sync functions alone: in every scenario."

# what is compared, with async tools and with sync ones
SHORT = (("a run with one call", "hop", "sync"), ("a further hop", "early", "early_sync"))


def kind(row: Row) -> str:
    return {OURS.name: "ours", YARDSTICK.name: "yardstick"}.get(row.name, "peer")


def find(rows: Sequence[Row], name: str) -> Row | None:
    return next((row for row in rows if row.name == name), None)


def cheapest(rows: Sequence[Row], figure: str, *, sync: bool) -> tuple[Estimate, Row] | None:
    """Whoever of the others takes least; who has sync tools alone stands among those."""
    found = [
        (value, row)
        for row in rows
        if kind(row) == "peer" and (sync or not row.entry.get("blocking")) and (value := row.value(figure))
    ]
    return min(found, key=lambda pair: pair[0].median, default=None)


def in_short(rows: Sequence[Row]) -> str:
    """Ours against the yardstick and against whoever is the cheapest of the others."""
    ours, yardstick = find(rows, OURS.name), find(rows, YARDSTICK.name)
    if ours is None or yardstick is None:
        return ""
    lines: list[str] = []
    for what, *figures in (*SHORT, ("a run in memory", "memory")):
        for figure, tools in zip(figures, ("async", "sync"), strict=False):
            mine, theirs = ours.value(figure), ratio(ours, yardstick, figure)
            other = cheapest(rows, figure, sync=tools == "sync")
            if mine is None or theirs is None or other is None:
                continue
            form = size if figure == "memory" else seconds
            least, row = other
            lines.append(
                f"- {what.capitalize()}, {tools} tools: {form(mine.median)}, {times(theirs.median)} times "
                f"the hand-written loop. The cheapest of the others, {row.title}, takes "
                f"{form(least.median)}, {times(least.median / mine.median)} times as much."
            )
    return paragraphs("## In short", "\n".join(lines)) if lines else ""


def headline(results: Results) -> str:
    """The costs that the README and the home page show: ours, the yardstick and the cheapest other."""
    rows = rows_of(results)
    ours, yardstick = find(rows, OURS.name), find(rows, YARDSTICK.name)
    if ours is None or yardstick is None:
        return ""
    count = sum(kind(row) == "peer" and row.value("short") is not None for row in rows)
    head = ["", *(f"{what}, {tools} tool" for what, *_ in SHORT for tools in ("async", "sync"))]
    body: list[list[str]] = [
        ["**Wesichain**"],
        ["a minimal hand-written loop"],
        [f"the cheapest of {count} others"],
    ]
    for _, *figures in SHORT:
        for figure, is_sync in zip(figures, (False, True), strict=True):
            for line, row in zip(body, (ours, yardstick), strict=False):
                value = row.value(figure)
                line.append(seconds(value.median) if value else "-")
            other = cheapest(rows, figure, sync=is_sync)
            body[2].append(f"{seconds(other[0].median)} ({other[1].title})" if other else "-")
    setting = (
        f"The framework's own CPU time, with a model that answers at once: version {ours.entry['version']} "
        f"on {results['date']}, Python {results['python']}, {results['platform']}, {results['cores']} cores."
        f"{shared_machine(results)}"
    )
    return paragraphs(setting, table(head, body))


def shared_machine(results: Results) -> str:
    """How busy the machine was, if it was shared: the figures hold for no quieter one."""
    load = results.get("load")
    return f" The machine was shared: its load was {min(load)} to {max(load)}." if load else ""


def runs(rows: Sequence[Row]) -> str:
    yardstick = find(rows, YARDSTICK.name)
    head = ["async tools", "version", "no tool", "one hop", "malformed call, recovered", "per hop, 10 to 100"]
    head += ["per hop, 100 to 1,000", "the last, times the hand-written loop"]
    body: list[list[str]] = []
    for row in rows:
        cells = [named(row), row.entry["version"], cell(row, "short"), cell(row, "hop"), _malformed(row)]
        body.append([*cells, cell(row, "early"), *_late(row, yardstick)])
    stops = {
        facts["chain1000"]["stopped"]
        for row in rows
        for facts in row.entry["rounds"]
        if "stopped" in facts.get("chain1000", {})
    }
    return paragraphs(
        "## The cost of a run",
        RUNS,
        "### Async tools",
        table(head, body),
        f"Where it says “>”, the chain of 1,000 was stopped after {max(stops):.0f} s of CPU: a hop costs at "
        "least that much."
        if stops
        else "",
        reasons(rows, ("short", "hop", "malformed", "chain100", "chain1000")),
        "\\* The tool was entered with the malformed arguments: they were not checked before."
        if any("\\*" in cells[4] for cells in body)
        else "",
        DAGGER if any(row.entry.get("blocking") for row in rows) else "",
        "![CPU time of a run with one call of an async tool](benchmarks/one-hop.svg)",
        "![CPU time per hop against the length of the chain](benchmarks/per-hop.svg)",
        CLIMBING,
        _sync(rows),
    )


def _sync(rows: Sequence[Row]) -> str:
    yardstick = find(rows, YARDSTICK.name)
    head = ["sync tools", "runs in", "one hop", "times the hand-written loop", "per hop, 10 to 100"]
    head += ["times the hand-written loop"]
    body: list[list[str]] = []
    for row in sorted(rows, key=lambda row: found.median if (found := row.value("sync")) else float("inf")):
        body.append([named(row), _place(row, "sync"), *_against(row, yardstick, "sync", "early_sync")])
        if row.value("quick"):
            title = f"{named(row)}, `{row.entry.get('quick', '')}`"
            body.append([title, _place(row, "quick"), *_against(row, yardstick, "quick", "early_quick")])
    if not any(row.value("sync") for row in rows):
        return ""
    return paragraphs("### Sync tools", SYNC, table(head, body), reasons(rows, ("sync", "sync100")))


def _against(row: Row, yardstick: Row | None, *figures: str) -> list[str]:
    cells: list[str] = []
    for figure in figures:
        base = figure.replace("quick", "sync")
        against = ratio(row, yardstick, figure, base) if yardstick else None
        cells += [cell(row, figure), with_interval(against, times) if against else ""]
    return cells


def _place(row: Row, scenario: str) -> str:
    where = {
        facts[scenario]["in_thread"]
        for facts in row.entry["rounds"]
        if "in_thread" in facts.get(scenario, {})
    }
    return " or ".join("a thread" if in_thread else "the loop's thread" for in_thread in sorted(where)) or "-"


def _late(row: Row, yardstick: Row | None) -> list[str]:
    """The cost of a hop in the long chain, and how many times the yardstick's it is."""
    base = yardstick.value("late") if yardstick else None
    bound = late_at_least(row)
    if bound is not None and row.value("late") is None:
        return [f"> {seconds(bound)}", f"> {times(bound / base.median)}" if base else ""]
    against = ratio(row, yardstick, "late") if yardstick else None
    return [cell(row, "late"), with_interval(against, times) if against else ""]


def _malformed(row: Row) -> str:
    spared = all(facts.get("malformed", {}).get("spared", True) for facts in row.entry["rounds"])
    return cell(row, "malformed") + ("" if spared else " \\*")


def at_once(results: Results, rows: Sequence[Row]) -> str:
    yardstick = find(rows, YARDSTICK.name)
    head = ["async tools", "CPU a run", "memory a run", "memory, times the hand-written loop"]
    head += ["import", "peak memory after 100 hops"]
    body: list[list[str]] = []
    for row in rows:
        against = ratio(row, yardstick, "memory") if yardstick else None
        cells = [named(row), cell(row, "concurrent"), cell(row, "memory", size)]
        cells += [with_interval(against, times) if against else "", cell(row, "import")]
        body.append([*cells, cell(row, "peak", size)])
    pydantic = yardstick.value("pydantic") if yardstick else None
    return paragraphs(
        f"## {results['concurrent']:,} runs at once, memory and import",
        HELD,
        table(head, body),
        reasons(rows, ("concurrent", "import")),
        DAGGER if any(row.entry.get("blocking") for row in rows) else "",
        f"For comparison, importing pydantic's `BaseModel`, `Field` and `TypeAdapter` alone takes "
        f"{with_interval(pydantic, seconds).replace('<br>', ' ')}."
        if pydantic
        else "",
        "![Memory of one run among many held at once](benchmarks/memory.svg)",
        "![CPU time of the import](benchmarks/import.svg)",
    )


def named(row: Row) -> str:
    dagger = " †" if row.entry.get("blocking") else ""
    return f"**{row.title}**" if row.name == OURS.name else f"{row.title}{dagger}"


def cell(row: Row, figure: str, form: Format = seconds) -> str:
    value = row.value(figure)
    return with_interval(value, form) if value else "-"


def reasons(rows: Sequence[Row], scenarios: Sequence[str]) -> str:
    """Why there is a dash."""
    lines: list[str] = []
    for row in rows:
        if reason := row.entry.get("unavailable"):
            lines.append(f"- {row.title}: {reason}")
            continue
        lines += [
            f"- {row.title}, {scenario}: {why}"
            for scenario in scenarios
            if isinstance(why := row.figures[scenario], str)
            and why != "not measured"
            and "stopped" not in why
        ]
    return "Where a dash stands:\n\n" + "\n".join(lines) if lines else ""
