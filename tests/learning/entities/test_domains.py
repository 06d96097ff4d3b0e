"""Names of domains, and the file names made from them."""

from __future__ import annotations

import pytest

from wesichain.errors import DomainError, PlaybookError
from wesichain.learning.entities.domains import check_domain

HOSTILE = [
    pytest.param("../x", id="climbs-out"), pytest.param("/etc", id="is-absolute"),
    pytest.param("a\\b", id="has-a-backslash"), pytest.param("%2e%2e", id="is-percent-encoded"),
    pytest.param("a\0b", id="has-a-nul"), pytest.param("a" * 65, id="is-too-long"),
    pytest.param("\uff0e\uff0e\uff0fx", id="has-full-width-dots-and-slashes"),
    pytest.param("Billing", id="has-capitals-whose-case-twin-could-collide"),
    pytest.param("billing\n", id="ends-in-a-newline"), pytest.param("-a", id="begins-with-a-dash"),
    pytest.param("", id="is-empty"), pytest.param("\u0661", id="has-a-digit-that-is-not-ascii"),
    pytest.param("system", id="is-reserved-system"), pytest.param("admin", id="is-reserved-admin"),
    pytest.param(None, id="is-no-text"), pytest.param(7, id="is-a-number"),
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_refused_that(name: object) -> None:
    with pytest.raises(DomainError) as caught:
        check_domain(name)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, PlaybookError)


@pytest.mark.parametrize("name", ["a", "0", "billing", "help-desk_2", "a" * 64, "con", "nul"])
def test_a_plain_name_is_taken(name: str) -> None:
    assert check_domain(name) == name
