"""The tutorial's stand-in: what a local model would say to each page, where the real one is too slow."""

from __future__ import annotations

from tests.docs.pages import DOCS

FOLDER = DOCS / "tutorial"


def call(name: str, **args: object) -> dict[str, object]:
    return {"call": name, "args": args}


# By page; every block of a page begins with the first.
REPLIES: dict[str, list[object]] = {
    "2-question.md": ["The capital of Norway is Oslo."],
    "3-tool.md": [
        call("in_stock", item="lamps"),
        call("in_stock", item="lamp"),
        "There are 12 lamps in stock.",
    ],
    "4-typed-answer.md": [call("in_stock", item="desk"), call("final_answer", item="desk", count=3)],
    "5-several-tools.md": [
        call("price", item="desk"),
        "A desk costs 210 euros.",
        call("order", item="chair", count=5),
        "I have ordered 5 chairs.",
    ],
    "6-trace.md": [call("in_stock", item="desk"), "There are 3 desks."],
    "7-learning.md": [
        call("ship", order="A17", service="express"),
        "There is no such service.",
        call("ship", order="B23", service="EXP-24"),
        "Order B23 is on its way.",
    ],
    "8-simulation.md": [],
}

# What a page prints with these replies: that its program does what the page says.
PRINTS: dict[str, str] = {
    "2-question.md": "Oslo",
    "3-tool.md": "in_stock({'item': 'lamp'}) gave 12",
    "4-typed-answer.md": "desk is low 3",
    "5-several-tools.md": "it wants to call order {'item': 'chair', 'count': 5}",
    "6-trace.md": "True",
    "7-learning.md": "before: not sent\nafter: EXP-24",
    "8-simulation.md": "2 desks for one customer",
}
