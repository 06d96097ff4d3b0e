"""Reasons: which calls a person decides, and the text that says where each of their values comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wesichain.core import ToolCall
from wesichain.core.internal import readings
from wesichain.tools.internal import PreparedCall, ToolLabels

from .flow import READ_SEALED
from .text_origins import TextOrigins, handles_in, scalars
from .words import as_text, excerpt, loose_tokens, strict_tokens, urls_in

_MAX_LINES = 12
_MAX_VALUE = 120  # characters
_PIECE = 8  # characters of a secret that are found alone


def question_about(prepared: PreparedCall, seen: TextOrigins) -> str:
    """Why a person has to decide about a call; "" if its values may be used as they are.

    A call that runs an agent or a program has no effect of its own: the calls in it are asked about.
    """
    call, tool = prepared.call, prepared.tool
    if tool.is_agent or call.name == READ_SEALED or not (seen.has_seen or seen.secrets or seen.sealed):
        return ""
    labels = tool.labels
    args = {
        name: value
        for name, value in (call.args.items() if isinstance(call.args, dict) else ())
        if not (name in labels.defaults and labels.defaults[name] == value)
    }
    lines = [*_secrets(args, labels, seen), *_handles(args, labels, seen)]
    if seen.has_seen:
        lines += _unknown_values(args, labels, seen) or _quotation(call, args, labels, seen)
    if not lines:
        return ""
    more = [f"- and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []
    unique = dict.fromkeys((*lines[:_MAX_LINES], *more))
    return "\n".join((f"{call.name} has values that no person gave:", *unique))


def _unknown_values(args: Mapping[str, Any], labels: ToolLabels, seen: TextOrigins) -> list[str]:
    lines: list[str] = []
    given = 0
    for name, value in args.items():
        if labels.is_protected(name):
            values = [*scalars({name: value})]
            names = labels.names
            unknown = [one for one in values if one not in names and not seen.is_trusted(one)]
            given += sum(as_text(one).strip() != "" for one in values)
            lines += [_where(name, one, seen) for one in unknown]
        elif labels.from_user:  # its other parameters are free, addresses aside
            texts = [one for one in scalars({name: value}) if isinstance(one, str)]
            urls = [url for text in texts for url in urls_in(text)]
            lines += [_where(name, url, seen) for url in urls if not seen.is_trusted(url)]
    if not given and not labels.pure and not lines:
        lines.append("- nothing in the call was given by a person, and outside text was read before it")
    return lines


def _where(name: str, value: Any, seen: TextOrigins) -> str:
    """One line of a question: a value, and the text that it stands in."""
    text = as_text(value)
    shown = f"{text[:_MAX_VALUE]}…" if len(text) > _MAX_VALUE else text
    segment = seen.source(value)
    if segment is None:
        return f"- {name}: {shown!r} stands in no text of a person or of a trusted result"
    return f"- {name}: {shown!r} comes from {segment.source}: “{excerpt(segment.texts, text)}”"


def _quotation(call: ToolCall, args: Mapping[str, Any], labels: ToolLabels, seen: TextOrigins) -> list[str]:
    """A call whose name and every argument stand in one outside text is a quotation, and not a decision."""
    name = loose_tokens(call.name)
    if seen.quoted([name]) is None:
        return []
    values = [one for one in scalars(args) if as_text(one).strip()]
    if not values and labels.pure:
        return []
    if (
        all(any(run.people.first(strict_tokens(as_text(one))) for run in seen.line()) for one in values)
        and values
    ):
        return []  # a person named them all
    segment = seen.quoted([name, *(loose_tokens(as_text(one)) for one in values)])
    if segment is None:
        return []
    return [f"- the whole call is quoted from {segment.source}: “{excerpt(segment.texts, call.name)}”"]


def _handles(args: Mapping[str, Any], labels: ToolLabels, seen: TextOrigins) -> Iterator[str]:
    """Sealed texts that are values of protected parameters."""
    for name, value in args.items():
        if labels.is_protected(name):
            for one in scalars({name: value}):
                for handle in handles_in(one, seen.sealed):
                    held = seen.sealed[handle]
                    words = excerpt([as_text(held.value)], "")
                    yield f"- {name}: {handle} is sealed text of {held.tool}: “{words}”"


def _secrets(args: Mapping[str, Any], labels: ToolLabels, seen: TextOrigins) -> Iterator[str]:
    """Parameters that leave, and contain a secret, or a piece of one, in any usual encoding."""
    if not seen.secrets:
        return
    for name, value in args.items():
        texts = [as_text(one) for one in scalars({name: value})]
        if name not in labels.leaves:
            texts = [url for text in texts for url in urls_in(text)]
        if any(_has_secret(text, secret) for text in texts for secret in seen.secrets):
            yield f"- {name}: contains a secret, which would leave"


def _has_secret(text: str, secret: str) -> bool:
    plain, held = _letters(secret), secret.encode()
    if not plain:
        return False
    size = min(_PIECE, len(plain))
    pieces = {plain[start : start + size] for start in range(len(plain) - size + 1)}
    pieces |= {piece[::-1] for piece in pieces} | {held.hex()}
    pieces |= {_letters(form) for form in _base64_forms(held)}
    return any(piece and piece in _letters(one.text) for one in readings(text) for piece in pieces)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()


def _base64_forms(held: bytes) -> Iterator[str]:
    """The letters that a text has in base64, wherever it stands in the encoded text."""
    from base64 import b64encode

    for before in range(3):  # the letters at both ends share bits with what stands around
        encoded = b64encode(bytes(before) + held).decode().rstrip("=")
        yield encoded[(0, 2, 3)[before] : len(encoded) - ((before + len(held)) % 3 > 0)]
