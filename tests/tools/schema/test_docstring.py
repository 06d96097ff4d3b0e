"""Docstrings in every usual style."""

from __future__ import annotations

import pytest

from wesichain.tools import tool

GOOGLE = """Find flights.

Looks at all airlines.

Args:
    origin: where from,
        as a code
    limit (int): how many

Returns:
    The flights.

Raises:
    ValueError: never.
"""
NUMPY = """Find flights.

Looks at all airlines.

Parameters
----------
origin : str
    where from,
    as a code
limit : int, optional
    how many

Returns
-------
list
    The flights.
"""
SPHINX = """Find flights.

Looks at all airlines.

:param origin: where from,
    as a code
:param limit: how many
:type limit: int
:returns: The flights.
"""
EPYDOC = """Find flights.

Looks at all airlines.

@param origin: where from,
    as a code
@param limit: how many
@return: The flights.
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX, EPYDOC], ids=["google", "numpy", "sphinx", "epydoc"])
def test_a_docstring_describes_the_tool_and_its_parameters(text: str) -> None:
    def find(origin: str, limit: int = 3) -> list[str]:
        return [origin] * limit

    find.__doc__ = text
    spec = tool(find).spec
    assert spec.description == "Find flights.\n\nLooks at all airlines."
    assert spec.parameters["properties"] == {
        "origin": {"type": "string", "description": "where from, as a code"},
        "limit": {"type": "integer", "default": 3, "description": "how many"},
    }


@pytest.mark.parametrize(
    ("text", "description"),
    [
        pytest.param("One line.", "One line.", id="one-line"),
        pytest.param("\n    Indented.\n    ", "Indented.", id="indented"),
        pytest.param("Two.\n\nParagraphs.", "Two.\n\nParagraphs.", id="two-paragraphs"),
        pytest.param("Do:\n\n    this\n\nDone.", "Do:\n\n    this\n\nDone.", id="an-indented-line"),
    ],
)
def test_what_is_in_no_style_is_all_description(text: str, description: str) -> None:
    def find(origin: str) -> str:
        return origin

    find.__doc__ = text
    assert tool(find).description == description


def test_star_parameters_are_described_by_either_name() -> None:
    def find(*codes: str, **limits: int) -> int:
        """Find.

        Args:
            *codes: where
            **limits: how many
        """
        return len(codes) + len(limits)

    properties = tool(find).spec.parameters["properties"]
    assert properties["codes"]["description"] == "where"


def test_a_description_given_in_words_wins() -> None:
    def find(origin: str) -> str:
        """Find."""
        return origin

    made = tool(find, description="Seek.")
    assert made.spec.description == "Seek."
