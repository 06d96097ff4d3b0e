"""Identity: who asks for something, or decides."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import Self


class Identity(str):
    """The name of a person or a program, with the roles that it has."""

    __slots__ = ("roles",)

    roles: tuple[str, ...]

    def __new__(cls, id: str, roles: Iterable[str] = ()) -> Self:
        """`id` names the person or program; `roles` are names that rules of approvers ask for."""
        made = super().__new__(cls, id)
        made.roles = tuple(roles)
        return made

    @property
    def id(self) -> str:
        """The name alone."""
        return str(self)


def roles_of(by: str | None) -> tuple[str, ...]:
    """The roles of whoever it is; none for a plain name."""
    return by.roles if isinstance(by, Identity) else ()
