"""Domains: the names that keep what was learned apart, and the file names made from them."""

from __future__ import annotations

import re
from hashlib import sha256

from wesichain.errors import DomainError

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_RESERVED = frozenset({"system", "admin"})


def check_domain(name: object) -> str:
    """The name itself, or a `DomainError` that says what a name may be."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise DomainError(
            f"{str(name)[:80]!r} is not a domain: use up to 64 of a-z, 0-9, '_' and '-', "
            f"and begin with a letter or a digit"
        )
    if name in _RESERVED:
        raise DomainError(f"the domain {name!r} is reserved; choose another name")
    return name


def hashed_name(name: str) -> str:
    """A file name for any text: nothing of the text reaches the path, and no two texts share one."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
