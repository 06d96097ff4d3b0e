"""Id: marks a parameter whose values are identifiers, which are looked up and never made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


class Id:
    """`order: Annotated[str, Id]`: the value names something that exists.

    The schema says so as `"format": "id"`; a model that can be held to the values of its conversation is.
    """

    FORMAT: Final = "id"

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        return {**handler(core), "format": cls.FORMAT}
