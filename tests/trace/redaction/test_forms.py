"""How many of 105 forms of secrets are missed, and how many of 28 harmless texts are touched."""

from __future__ import annotations

from tests.trace.redaction import forms_ours, forms_public

SECRET = [(f"ours-{name}", text, secrets) for name, text, secrets in forms_ours.FORMS] + [
    (f"public-{name}", text, secrets) for name, _, text, secrets in forms_public.FORMS
]
HARMLESS = [*forms_ours.HARMLESS, *((name, text) for name, _, text in forms_public.HARMLESS)]


def test_the_rows_are_what_they_say() -> None:
    assert (len(SECRET), len(HARMLESS)) == (105, 28)
    assert len({name for name, _, _ in SECRET}) == 105
    assert all(secret in text for _, text, secrets in SECRET for secret in secrets)
