"""A help desk: departments with databases and documents, services with code names, questions with answers."""

from .tasks import INTENTS, Case, Intent, cases
from .world import Desk, World, build

__all__ = ["INTENTS", "Case", "Desk", "Intent", "World", "build", "cases"]
