"""Taking secrets out: the rules, and the redactor that applies them to events."""

from .redactor import Redactor, redact

__all__ = ["Redactor", "redact"]
