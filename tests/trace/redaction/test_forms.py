"""How many of 105 forms of secrets are missed, and how many of 28 harmless texts are touched."""

from __future__ import annotations

from tests.trace.redaction import forms_ours, forms_public
from wesichain.trace import Redactor

SECRET = [(f"ours-{name}", text, secrets) for name, text, secrets in forms_ours.FORMS] + [
    (f"public-{name}", text, secrets) for name, _, text, secrets in forms_public.FORMS
]
HARMLESS = [*forms_ours.HARMLESS, *((name, text) for name, _, text in forms_public.HARMLESS)]
BARE = Redactor(environ={})


def test_the_rows_are_what_they_say() -> None:
    assert (len(SECRET), len(HARMLESS)) == (105, 28)
    assert len({name for name, _, _ in SECRET}) == 105
    assert all(secret in text for _, text, secrets in SECRET for secret in secrets)


def test_no_form_is_missed() -> None:
    """The limit is five. A form is missed if a secret in it is there afterwards, or half of one."""
    missed = [
        name
        for name, text, secrets in SECRET
        if any(half in BARE.text(text) for secret in secrets for half in _halves(secret))
    ]
    assert missed == []


def _halves(secret: str) -> tuple[str, str]:
    middle = len(secret) // 2
    return secret[:middle], secret[middle:]


def test_no_harmless_text_is_touched() -> None:
    """The limit is one."""
    assert [name for name, text in HARMLESS if BARE.text(text) != text] == []


def test_a_redacted_form_stays_as_it_is() -> None:
    redacted = [BARE.text(text) for _, text, _ in SECRET]
    assert [BARE.text(text) for text in redacted] == redacted
