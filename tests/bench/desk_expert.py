"""An expert of the shifting desk: knows every rule, and does what a task needs, call by call."""

from __future__ import annotations

import re
from typing import Any

from bench.desk.registers import place_of
from bench.desk.rules import UNITS, Rules
from bench.desk.skins import SKINS
from bench.desk.values import Task

from wesichain.core import LlmRequest, LlmResponse, LlmTraits, Role, ToolCall, parse_json

Call = tuple[str, dict[str, Any]]
_ID = re.compile(r"[A-Z]{2}-\d+X?")


class Expert:
    """A model that plays a list of calls, then answers; `$id` stands for the id that the first call found."""

    model = "expert"
    traits = LlmTraits(observes_errors=True)

    def __init__(self, calls: list[Call], answer: str = "", *, computed: bool = False) -> None:
        self.calls = calls
        self._answer = answer
        self._computed = computed  # from the result, in the head

    async def complete(self, request: LlmRequest) -> LlmResponse:
        results = [message.text for message in request.messages if message.role is Role.TOOL]
        if len(results) == len(self.calls):
            seen = self._computed or self._answer in results[-1]
            return LlmResponse(f"It is {self._answer}." if seen else "I could not find it.")
        name, args = self.calls[len(results)]
        found = parse_json(results[0])["id"] if "$id" in args.values() else ""
        filled = {key: found if value == "$id" else value for key, value in args.items()}
        call = ToolCall(f"call_{len(results)}", name, filled)
        return LlmResponse("", tool_calls=(call,), finish_reason="tool_calls")


def expert(task: Task, world: str, rules: Rules) -> Expert:  # noqa: C901  # a line or two a family
    """What the manual asks for."""
    skin = SKINS[world]
    calls: list[Call] = []
    ids = _ID.findall(task.question)
    if task.family.endswith("_by_name"):
        names = [f"{one} {other}" for one in skin.given for other in skin.family]
        names += [f"{one} {roman}" for one in skin.subjects for roman in ("One", "Two", "Three", "Four")]
        name = next(name for name in names if name in task.question)
        jobs = task.desk in ("jobs", "bookings")
        calls.append((f"find_{skin.job if jobs else skin.person}", {skin.subject if jobs else "name": name}))
    one = ids[0] if ids else "$id"
    values: tuple[Any, ...] = task.goal.changes[0][1] if task.goal.changes else ()
    if task.desk in ("members", "bookings") and (call := _third(task, world, one, values)):
        return Expert([*calls, call])
    match re.split(r"_", task.family)[0]:
        case "town" | "phone" | "length":
            calls.append((f"show_{skin.person}", {"id": one}))
        case "credit":
            amount = round(values[0] * UNITS[rules.unit] / 100)
            calls.append((rules.name(skin.credit), {"id": one, "amount": amount}))
        case "slot":
            calls.append((f"assign_{skin.slot}", {"id": one, skin.slot: values[0]}))
        case "note":
            calls += [("add_note", {"id": one, "text": values[1]}), ("post_note", {"note": 1})]
        case "handler":
            calls.append((f"show_{skin.job}", {"id": one}))
        case "oldhandler" | "oldstate":
            calls.append((f"show_archived_{skin.job}", {"id": one}))
        case "cancel":
            calls.append((f"cancel_{skin.job}", {"id": one}))
        case "schedule":
            year, month, day = values[0].split("-")
            written = rules.day.replace("2027", year).replace("03", month).replace("14", day)
            if rules.day == "20270314":
                written = year + month + day
            calls.append((skin.schedule, {"id": one, "day": written}))
        case "release":
            calls += [(skin.prepare, {"id": one}), (skin.release, {"id": one})]
        case "priority":
            calls.append((f"rank_{skin.job}", {"id": one, "rank": values[0]}))
        case "shelf" | "weight":
            calls.append((f"look_in_{place_of(one, rules)}", {"code": one}))
        case _:
            counter = rules.counters[one.split("-")[0]]
            calls.append((rules.name(f"hand_in_{counter}"), {skin.form: one}))
    return Expert(calls, task.goal.answer, computed=task.family.startswith("length"))


def _third(task: Task, world: str, one: str, values: tuple[Any, ...]) -> Call | None:
    """The call of a family of the third round whose goal is a value as the house writes it."""
    skin, value = SKINS[world], values[0] if values else None
    by_kind: dict[str, Call] = {
        "credit": (skin.credit, {"id": one, "amount": value}),
        "charge": (f"charge_{skin.person}", {"id": one, "amount": value}),
        "birthday": ("set_birthday", {"id": one, "day": value}),
        "code": (f"assign_{skin.slot}", {"id": one, skin.slot: value}),
        "reach": (f"set_{skin.length}", {"id": one, skin.length: value}),
        "contact": ("set_contact", {"id": one, "contact": value}),
        "day": (skin.schedule, {"id": one, "day": value}),
        "due": ("set_due", {"id": one, "day": value}),
        "hour": ("set_hour", {"id": one, "hour": value}),
        "end": ("set_end", {"id": one, "hour": value}),
        "rank": (f"rank_{skin.job}", {"id": one, "rank": value}),
    }
    kind = task.family.split("_")[0]
    if kind in ("credit", "charge", "reach"):
        number = by_kind[kind][1]
        number |= {name: int(value) for name in number if name != "id" and value is not None}
    return by_kind.get(kind)
