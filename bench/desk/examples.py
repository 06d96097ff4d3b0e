"""Six solved questions of a desk that does not exist: how to work with tools, the same in every arm.

They show what a small model does not do by itself: stop once a thing is done, try another tool or form
after a refusal, look up an id before it is used. No tool, record or rule of any world is in them.
"""

from __future__ import annotations

from typing import Any

from wesichain.core import Message, Role, ToolCall, dump_json

_Turn = tuple[str, dict[str, Any], Any]


def _solved(question: str, turns: list[_Turn], answer: str) -> list[Message]:
    messages = [Message(Role.USER, question)]
    for number, (tool, args, result) in enumerate(turns):
        call = ToolCall(f"example_{number}", tool, args)
        said = result if isinstance(result, str) else dump_json(result)
        messages += [
            Message(Role.ASSISTANT, "", tool_calls=(call,)),
            Message(Role.TOOL, said, tool_call_id=call.id),
        ]
    return [*messages, Message(Role.ASSISTANT, answer)]


def _refused(why: str) -> str:
    return f"[TOOL ERROR] {why}"


EXAMPLES: tuple[Message, ...] = (
    *_solved(
        "What colour is plant TU-12?",
        [("show_plant", {"id": "TU-12"}, {"id": "TU-12", "colour": "red", "price": 3})],
        "red",
    ),
    *_solved("Mark bed BD-7 as watered.", [("water_bed", {"id": "BD-7"}, {"watered": True})], "Done."),
    *_solved(
        "In which row is the oak QK-31?",
        [
            ("search_north", {"tree": "QK-31"}, _refused("no tree 'QK-31' in the north")),
            ("search_east", {"tree": "QK-31"}, _refused("no tree 'QK-31' in the east")),
            ("search_south", {"tree": "QK-31"}, {"tree": "QK-31", "row": 4}),
        ],
        "Row 4",
    ),
    *_solved(
        "Remove the order of Ida Kern.",
        [
            ("find_order", {"customer": "Ida Kern"}, {"id": "OR-88"}),
            ("remove_order", {"id": "OR-88"}, {"removed": True}),
        ],
        "Done.",
    ),
    *_solved(
        "Set the height of hedge HG-5 to 2 metres.",
        [
            ("set_height", {"id": "HG-5", "height": "2"}, _refused("height '2' refused")),
            ("set_height", {"id": "HG-5", "height": "2 m"}, {"set": True}),
        ],
        "Done.",
    ),
    *_solved(
        "Open greenhouse GH-2.",
        [
            ("open_greenhouse", {"id": "GH-2"}, _refused("GH-2 cannot be opened")),
            ("unlock_greenhouse", {"id": "GH-2"}, {"unlocked": True}),
            ("open_greenhouse", {"id": "GH-2"}, {"open": True}),
        ],
        "Done.",
    ),
)
