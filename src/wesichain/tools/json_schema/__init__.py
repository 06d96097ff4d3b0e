"""JSON Schema: a compiled validator for draft 2020-12 that fetches nothing and cannot hang.

`compile` is imported where a schema is checked; what is here serves messages and schemas alike.
"""

from .issues import Issue, RejectedError, closest, no_such_field, one_of, preview, quote, shorten, show_path
from .shape import children, rewrite

__all__ = [
    "Issue",
    "RejectedError",
    "children",
    "closest",
    "no_such_field",
    "one_of",
    "preview",
    "quote",
    "rewrite",
    "shorten",
    "show_path",
]
