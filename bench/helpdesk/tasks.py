"""The questions of the help desk: six kinds in four departments, each with the way to its answer.

Training and held-out questions share no subject and no wording.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wesichain.learning import Feedback, TaskInput

from .world import FIRST, KINDS, LAST, SIZES, TOPICS, World


@dataclass(frozen=True, slots=True)
class Intent:
    """One kind of question. `way` are the services that lead to the answer, each fed by the one before."""

    name: str
    domain: str
    subjects: tuple[str, ...]
    way: tuple[str, ...]
    train: tuple[str, ...]
    held_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A task, what its answer is, and the shortest way there (calls and the answer itself)."""

    task: TaskInput
    intent: str
    answer: str
    best: int

    @property
    def feedback(self) -> Feedback:
        return Feedback.expected(self.answer)


COMPANIES = tuple(f"{first} {last}" for first in FIRST for last in LAST)
ORDERS = tuple(f"N{300 + row}" for row in range(60))
INVOICES = tuple(f"I{5000 + 10 * row + part}" for row in range(60) for part in range(3))
PARTS = tuple(f"{size} {kind}" for kind in KINDS for size in SIZES)

INTENTS = (
    Intent(
        "owes",
        "billing",
        COMPANIES,
        ("amber", "birch"),
        ('How much does "{}" still owe us?', 'What is the open amount of "{}"?'),
        ('Tell me how much money "{}" still owes.', 'What amount does "{}" have open?'),
    ),
    Intent(
        "contact",
        "billing",
        INVOICES,
        ("dune", "ember"),
        ("Who is the contact for invoice {}?", "Which person do we call about invoice {}?"),
        ("Name the contact person for invoice {}.", "Who should be called about invoice {}?"),
    ),
    Intent(
        "due",
        "shipping",
        ORDERS,
        ("falcon", "heron"),
        ("On which date will order {} arrive?", "When is order {} due?"),
        ("What is the arrival date of order {}?", "When will order {} be delivered?"),
    ),
    Intent(
        "phone",
        "shipping",
        ORDERS,
        ("falcon", "iris", "jade"),
        (
            "What is the phone number of the carrier of order {}?",
            "Which number do I call for the carrier of {}?",
        ),
        (
            "Give me the phone number of the carrier for order {}.",
            "What is the carrier's phone for order {}?",
        ),
    ),
    Intent(
        "supplier",
        "stock",
        PARTS,
        ("kestrel", "maple", "nickel"),
        (
            'In which city is the supplier of the "{}"?',
            'From which city does the supplier of the "{}" come?',
        ),
        ('Name the city of the supplier for the "{}".', 'Which city does the supplier of a "{}" sit in?'),
    ),
    Intent(
        "policy",
        "office",
        tuple(TOPICS),
        ("pine", "quartz"),
        (
            'Within how many days are requests about "{}" answered?',
            'How many days does an answer about "{}" take?',
        ),
        ('In how many days do I get an answer about "{}"?', 'How many days for requests about "{}"?'),
    ),
)


def cases(
    world: World, part: Literal["train", "held_out"], *, each: int, intents: Sequence[Intent] = INTENTS
) -> list[Case]:
    """`each` questions of every kind, in an order that mixes them; the same each time."""
    chance = random.Random(part)
    found: list[Case] = []
    for intent in intents:
        half = len(intent.subjects) // 2
        mixed = random.Random(intent.name).sample(intent.subjects, len(intent.subjects))
        subjects = mixed[:half] if part == "train" else mixed[half:]
        wordings = intent.train if part == "train" else intent.held_out
        for number in range(each):
            subject = subjects[number % half]
            text = wordings[number // 3 % len(wordings)].format(
                subject
            )  # three of one wording make a pattern
            task = TaskInput(f"{part}-{intent.name}-{number}", text, domain=intent.domain)
            found.append(Case(task, intent.name, _answer(world, intent, subject), len(intent.way) + 1))
    chance.shuffle(found)
    return found


def _answer(world: World, intent: Intent, subject: str) -> str:
    value = subject
    for service in intent.way:
        value = world.ask(service, value)
    return value
