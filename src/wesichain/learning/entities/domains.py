"""Domains: the names of the separate parts of a playbook."""

from __future__ import annotations

import re

from wesichain.errors import DomainError

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_RESERVED = frozenset({"system", "admin"})


def check_domain(name: object) -> str:
    """Return the name, or raise a `DomainError` if it is not valid."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise DomainError(
            f"{str(name)[:80]!r} is not a domain: use up to 64 of a-z, 0-9, '_' and '-', "
            f"and begin with a letter or a digit"
        )
    if name in _RESERVED:
        raise DomainError(f"the domain {name!r} is reserved; choose another name")
    return name
