"""Masking: secrets that the process holds are replaced in texts and log records."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from typing_extensions import override

from .plain_text import readings
from .secrets import PLACEHOLDER, SECRETS, SecretIndex, environment_secrets


def placeholder(label: str) -> str:
    """The text that replaces a secret: it names the kind of secret only."""
    return f"[redacted:{label}]"


def is_placeholder(text: str) -> bool:
    return re.fullmatch(PLACEHOLDER, text) is not None


def replace_spans(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Replace spans by placeholders with their labels; of overlapping ones, the first or longest."""
    out: list[str] = []
    done = 0
    for start, end, label in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= done:
            out += (text[done:start], placeholder(label))
        done = max(done, end)
    return "".join((*out, text[done:]))


def mask_secrets(text: str, *, sent: SecretIndex | None = None) -> str:
    """Replace the values of registered secrets and of secret environment variables, in any encoding.

    `sent` are further values, of one client (`sent_secrets`). For the texts of any room:
    `wesichain.trace.redact` also finds other secrets, by their form.
    """
    searches = [(environment_secrets().find, "environment"), (SECRETS.find, "registered")]
    if sent:
        searches.append((sent.find, "sent"))
    return replace_spans(
        text,
        (
            (*reading.places(*span), label)
            for reading in readings(text)
            for find, label in searches
            for span in find(reading.text)
        ),
    )


class SecretFilter(logging.Filter):
    """Masks secrets in the records of a logger or a handler: in their messages and tracebacks."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001  # arguments that do not fit: the handler reports it
            return True
        masked = mask_secrets(message)
        if masked != message:
            record.msg, record.args = masked, None
        if record.exc_info and not record.exc_text:
            trace = logging.Formatter().formatException(record.exc_info)
            masked = mask_secrets(trace)
            if masked != trace:
                record.exc_info, record.exc_text = None, masked
        return True


# A filter of a logger does not see the records of the loggers below it.
LOGGERS = ("wesichain", "wesichain.durable", "wesichain.edge", "wesichain.tools", "wesichain.trace")
for _name in LOGGERS:
    logging.getLogger(_name).addFilter(SecretFilter())
