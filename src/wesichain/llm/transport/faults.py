"""Faults: the error for each way in which a provider fails, in one line that says what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, ClassVar

from wesichain.core.internal import SecretIndex, Value, is_array, is_object, mask_secrets, parse_json
from wesichain.errors import CodecError, LlmError, LlmRejectedError, LlmResponseError, LlmTransportError
from wesichain.llm.calls import as_object, as_objects

_TEMPORARY = frozenset({408, 409, 425, 429})  # and every 5xx
# A model without vision or audio gives any status (llama.cpp: 500); a retry does not help.
_UNABLE = re.compile(
    r"\b(image|audio|multimodal|file|vision)\w*\b[^.]{0,40}\bnot (?:be )?supported", re.IGNORECASE
)
_WITHOUT = "the model does not accept such content: leave it out, or set traits=LlmTraits(images=False)"

# Errors inside a reply have a name instead of a status.
_STATUS_OF = {
    "invalid_request_error": 400,
    "content_filter": 400,
    "context_length_exceeded": 400,
    "tool_use_failed": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class Endpoint(Value):
    """The server that a client calls. No error text has the key, or more of the address than the host.

    `sent` are the values in the address and the headers, which a server may repeat in its errors.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("key", "sent")

    host: str
    model: str
    key_variable: str
    key: str = ""
    is_borrowed: bool = False  # the SDK's client, and its key, belong to the caller
    sent: SecretIndex | None = None

    def refused(self, status: int, body: str, *, headers: Mapping[str, str], now: float) -> LlmError:
        """The error for an HTTP status that is not a success."""
        error = _error_in(body)
        words, names = _message_and_names(error)
        after = retry_after(headers, now=now)
        if after is None:
            after = _retry_delay(error)
        return self._fault(status, words, names=names, verdict=headers.get("x-should-retry"), after=after)

    def reported(self, error: object) -> LlmError:
        """The error for one inside a 200 response, such as `{"message", "type", "code"}`."""
        words, names = _message_and_names(error)
        given = [error.get("status_code"), error.get("code")] if is_object(error) else []
        codes = [code for code in given if isinstance(code, int) and 400 <= code < 600]
        status = codes[0] if codes else next((_STATUS_OF[name] for name in names if name in _STATUS_OF), 500)
        return self._fault(status, words, names=names)

    def unreachable(self, error: BaseException) -> LlmTransportError:
        """The error for a connection that could not be opened, or was closed before the reply began."""
        why = self.line(str(error)) or type(error).__name__
        return LlmTransportError(
            f"cannot reach {self.host}: {why}; check base_url and the network", retryable=True
        )

    def overdue(self, seconds: float) -> LlmTransportError:
        """The error for a reply that took longer than `total`."""
        return LlmTransportError(
            f"no complete reply from {self.host} within {seconds:g} s; try again, or allow more with total=",
            retryable=True,
        )

    def silent(self, seconds: float) -> LlmTransportError:
        """The error for a provider that sends nothing for `deadline` seconds."""
        return LlmTransportError(
            f"no byte from {self.host} for {seconds:g} s; try again, or allow more with deadline=",
            retryable=True,
        )

    def cut(self, error: BaseException | None = None) -> LlmResponseError:
        """The error for a reply that was cut off."""
        why = f" ({self.line(str(error)) or type(error).__name__})" if error else ""
        return LlmResponseError(f"the reply of {self.host} was cut off{why}; try again", retryable=True)

    def unreadable(self, what: str) -> LlmResponseError:
        """The error for a 200 response whose body is not a reply."""
        return LlmResponseError(
            f"{self.host} answered 200 with {self.line(what)}; check that base_url is the API itself",
            retryable=True,
        )

    def _fault(
        self,
        status: int,
        words: str,
        *,
        names: tuple[str, ...],
        verdict: str | None = None,
        after: float | None = None,
    ) -> LlmError:
        is_temporary = (status in _TEMPORARY or status >= 500) and not _UNABLE.search(words[:1000])
        retryable = is_temporary and "insufficient_quota" not in names
        if verdict in ("true", "false"):  # what the provider says counts more than the status
            retryable = verdict == "true"
        detail = f": {self.line(words)}" if words.strip() else ""
        advice = _WITHOUT if _UNABLE.search(words[:1000]) else self._advice(status, names)
        message = f"{self.host} answered {status}{detail}; {advice}"
        kind = LlmTransportError if is_temporary else LlmRejectedError
        return kind(message, retryable=retryable, retry_after=after)

    def _advice(self, status: int, names: tuple[str, ...]) -> str:
        if "insufficient_quota" in names or status == 402:
            return "the quota is used up: check the plan and the billing"
        if "content_filter" in names:
            return "its content filter rejected the prompt: rephrase it"
        if "context_length_exceeded" in names or status == 413:
            return "the conversation is too long for the model: shorten it"
        if "model_not_found" in names or status == 404:
            return f"check the model's name ({self.model!r}) and base_url"
        if status == 401:
            if self.is_borrowed:
                return "check the key of the client that was passed as client="
            if not self.key:
                return f"no key was sent, as {self.key_variable} is for its own host only: pass api_key="
            return f"check the key: {self.key_variable} or api_key="
        if status == 403:
            return f"check that the key may use {self.model!r}"
        if status == 429:
            return "it allows fewer requests: wait, or use a RateLimiter"
        if 300 <= status < 400:
            return "redirects are not followed, to protect the key: set base_url to the final address"
        if status >= 500 or status in _TEMPORARY:
            return "the provider is overloaded or failing: try again later"
        return "the request was not accepted: change it"

    def line(self, text: str) -> str:
        """Text from outside as one short printable line, without secrets."""
        line = " ".join(mask_secrets(text, sent=self.sent).split())
        return "".join(char for char in line[:300] if char.isprintable())

    def masked(self, error: BaseException) -> BaseException:
        """The error of an SDK, whose text, and those of its causes, may repeat what a server has sent."""
        each: BaseException | None = error
        seen: set[int] = set()
        while each is not None and id(each) not in seen:
            seen.add(id(each))
            each.args = tuple(
                mask_secrets(str(arg), sent=self.sent) if _is_text(arg) else arg for arg in each.args
            )
            each = each.__cause__ or each.__context__
        return error


def _is_text(value: object) -> bool:
    return isinstance(value, str | bytes | bytearray | Exception)


def retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or an HTTP date); else None."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _seconds(value)
    return _until(value, now) if seconds is None and value else seconds


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return seconds if isfinite(seconds) and seconds >= 0 else None


def _until(date: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        wait = moment.timestamp() - now
    except (ValueError, OverflowError):
        return None
    return wait if wait >= 0 else None


def _message_and_names(error: object) -> tuple[str, tuple[str, ...]]:
    """The message of an error, and its names, the most specific first."""
    if not is_object(error):
        return (error if isinstance(error, str) else ""), ()
    words = next((error[key] for key in ("message", "detail", "msg") if isinstance(error.get(key), str)), "")
    if isinstance(parameter := error.get("param"), str) and parameter not in words:
        words += f" ({parameter})"
    names = [error.get(key) for key in ("code", "type", "status")]
    return words, tuple(name for name in names if isinstance(name, str))


def _error_in(body: str) -> object:
    """The error in a response body of any form."""
    text = body.strip()
    try:
        value: Any = parse_json(text)
    except CodecError:
        return "an HTML page" if text.startswith("<") else text
    if is_array(value) and value:  # Google wraps the object in a list
        value = value[0]
    return value["error"] if is_object(value) and value.get("error") else value


def _retry_delay(error: object) -> float | None:
    """The seconds to wait that Google gives in the details of an error: `"retryDelay": "34s"`."""
    delays = [note.get("retryDelay") for note in as_objects(as_object(error).get("details"))]
    given = next((delay for delay in delays if isinstance(delay, str)), "")
    return _seconds(given.removesuffix("s"))
