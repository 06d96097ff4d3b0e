"""Secrets that the process holds: a registry of their values, and where a text has them, in any encoding."""

from __future__ import annotations

import os
import re
import sys
import weakref
from base64 import b64decode, b64encode
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from threading import RLock
from typing import Any, TypeAlias, cast

from .plain_text import readings
from .secret_names import is_secret_name, is_secret_variable

_SHORTEST = 8  # shorter values would match ordinary text
PLACEHOLDER = r"\[redacted:[a-z-]+\]"
_URL_SAFE = str.maketrans("+/", "-_")
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")
_compiled = cache(re.compile)

Span: TypeAlias = tuple[int, int]
_Form: TypeAlias = tuple[str, bool]  # a form of a value, and whether it is base64
_Table: TypeAlias = dict[int, tuple[_Form, ...]]


class SecretIndex:
    """Finds values in texts: as they are, in hexadecimal digits, and in base64 at any offset.

    The time for a text does not depend on the number of values. Of every form of a value, the four bytes at
    eight places in a row are entered in a table. A text is looked up every eight bytes, so that one of the
    places is met wherever the form is. Forms that are too short for that have four places, in a second table.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._tables: dict[int, _Table] = {8: {}, 4: {}}  # by the step
        for value in values:
            self.add(value)

    def __bool__(self) -> bool:
        return any(self._tables.values())

    def add(self, value: str) -> None:
        for table, place, form in self._entries(value):
            table[place] = (*table.get(place, ()), form)

    def discard(self, value: str) -> None:
        for table, place, form in self._entries(value):
            others = list(table.pop(place, ()))
            if form in others:
                others.remove(form)
            if others:
                table[place] = tuple(others)

    def _entries(self, value: str) -> Iterator[tuple[_Table, int, _Form]]:
        for form in _forms(value):
            data = form[0].encode("utf-8", "surrogatepass")
            step = 8 if len(data) >= 11 else 4
            middle = (len(data) - step - 3) // 2
            for at in range(middle, middle + step):
                yield self._tables[step], int.from_bytes(data[at : at + 4], sys.byteorder), form

    def find(self, text: str) -> Iterable[Span]:
        """The positions of the values in a text. What is in a placeholder is no secret."""
        data = text.encode("utf-8", "surrogatepass")
        places: Any = memoryview(data)[: len(data) & ~3].cast("I")
        forms: set[_Form] = set()
        for step, table in self._tables.items():
            if table:
                steps = places[::2] if step == 8 else places
                if not table.keys().isdisjoint(steps):
                    forms.update(form for place in steps for form in table.get(place, ()))
        return _outside_placeholders(text, forms) if forms else ()


def _outside_placeholders(text: str, forms: set[_Form]) -> Iterator[Span]:
    taken = [match.span() for match in _compiled(PLACEHOLDER).finditer(text)]
    for start, end in (span for form in forms for span in _occurrences(text, *form)):
        if not any(start < stop and begin < end for begin, stop in taken):
            yield start, end


def _forms(value: str) -> set[_Form]:
    """The forms in which a text contains a value once its escapes are read."""
    data = value.encode("utf-8", "surrogatepass")
    plain = {reading.text for reading in readings(value)}  # the value may have what looks like escapes
    forms = {(form, False) for form in (*plain, value.replace(" ", "+"), data.hex(), data.hex().upper())}
    for offset in range(3):
        # The letters that depend neither on the bytes in front nor on those behind.
        first, last = (0, 2, 3)[offset], (offset + len(data)) * 8 // 6
        letters = b64encode(bytes(offset) + data).decode()[first:last]
        forms |= {(letters, True), (letters.translate(_URL_SAFE), True)}
    return {form for form in forms if len(form[0]) >= _SHORTEST}


def _occurrences(text: str, form: str, is_base64: bool) -> Iterator[Span]:
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        if is_base64:  # with the letters that share bits with the value, and with the padding
            begin = start - (start > 0 and text[start - 1] in _BASE64)
            end += end < len(text) and text[end] in _BASE64
            while end < len(text) and text[end] == "=":
                end += 1
            yield begin, end
        else:
            yield start, end
        start = text.find(form, end)


class SecretRegistry:
    """The values that are registered as secrets. `version` changes with each new value."""

    def __init__(self) -> None:
        self.version = 0
        self.index = SecretIndex()
        self._owners: Counter[str] = Counter()
        self._released: deque[str] = deque()  # filled by the garbage collector, at any moment
        self._lock = RLock()

    def add(self, value: str, owner: object | None) -> None:
        with self._lock:
            self._owners[value] += 1
            if self._owners[value] == 1:
                self.index.add(value)
                self.version += 1
        if owner is not None:
            weakref.finalize(owner, self._released.append, value).atexit = False

    def find(self, text: str) -> Iterable[Span]:
        with self._lock:
            while self._released:
                value = self._released.popleft()
                self._owners[value] -= 1
                if not self._owners[value]:
                    del self._owners[value]
                    self.index.discard(value)
        return self.index.find(text)


SECRETS = SecretRegistry()


def register_secret(secret: object, *, owner: object | None = None) -> None:
    """Mask a value wherever a log, a trace, an error or a protocol leaves the process.

    `secret` is a string, bytes, or a `SecretStr` or `SecretBytes` of pydantic. Other values, and values of
    less than eight characters, are ignored. It is masked while `owner` exists; without one, for good.
    """
    value = getattr(secret, "get_secret_value", lambda: secret)()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str) and len(value := value.strip()) >= _SHORTEST:
        SECRETS.add(value, owner)


class _Use:
    """The owner of a secret that was used a short time ago."""


_recent: deque[_Use] = deque(maxlen=1000)


def register_recent(secret: object) -> None:
    """Register a secret that is used once or for a short time. Only the last thousand of them are masked."""
    _recent.append(_Use())
    register_secret(secret, owner=_recent[-1])


def register_url(url: str | None, *, owner: object | None = None) -> None:
    """Register the password in a URL, and the values of secret names in its query."""
    for secret in _secrets_in_url(url or ""):
        register_secret(secret, owner=owner)


def register_named(values: Mapping[str, str] | None, *, owner: object | None = None) -> None:
    """Register the values of headers or environment variables with secret names, also without a scheme."""
    for name, value in (values or {}).items():
        if is_secret_variable(name):
            scheme, _, rest = value.strip().partition(" ")
            for secret in (value, rest, _password(rest) if scheme.lower() == "basic" else ""):
                register_secret(secret, owner=owner)


def sent_secrets(url: str | None, headers: Mapping[str, str] | None) -> SecretIndex:
    """All values in an address and in headers that a server receives and may repeat, whatever their names.

    They are too many to be masked everywhere: for the errors of one client.
    """
    from urllib.parse import parse_qsl, unquote, urlsplit

    found: set[str] = set()
    with suppress(ValueError):
        parts = urlsplit(url or "")
        found |= {unquote(parts.username or ""), unquote(parts.password or "")}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            found.add(value or name)
    for value in (headers or {}).values():
        scheme, _, rest = value.strip().partition(" ")
        found |= {value.strip(), rest.strip(), _password(rest) if scheme.lower() == "basic" else ""}
    return SecretIndex(found)


def register_fields(value: object, *, depth: int = 8) -> None:
    """Register each `SecretStr` and `SecretBytes` in a value: in containers, dataclasses and models."""
    if hasattr(value, "get_secret_value"):
        register_recent(value)
    elif depth and not isinstance(value, str | bytes | int | float | None):
        names: Iterable[str] = getattr(type(value), "model_fields", ())
        if is_dataclass(value):
            names = [field.name for field in fields(value)]
        items: Iterable[object] = (getattr(value, name, None) for name in names)
        if isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).values()
        elif isinstance(value, list | tuple | set | frozenset):
            items = cast("Iterable[object]", value)
        for item in items:
            register_fields(item, depth=depth - 1)


def _secrets_in_url(url: str) -> Iterator[str]:
    from urllib.parse import parse_qsl, urlsplit  # not needed to import the framework, which is to be quick

    try:
        parts = urlsplit(url)
        yield parts.password or ""
    except ValueError:
        return
    yield from (value for name, value in parse_qsl(parts.query) if is_secret_name(name))


def _password(credentials: str) -> str:
    """The password in the credentials of basic authentication."""
    try:
        return b64decode(credentials).decode().partition(":")[2]
    except ValueError:
        return ""


def environment_secrets(environ: Mapping[str, str] | None = None) -> SecretIndex:
    """The secrets in an environment (by default, of the process): by the names of variables, and in URLs."""
    found: set[str] = set()
    for name, value in (os.environ if environ is None else environ).items():
        if is_secret_variable(name):
            found.add(value.strip())
        elif "://" in value:
            found.update(_secrets_in_url(value))
    return _index_of(tuple(sorted(value for value in found if len(value) >= _SHORTEST)))


_index_of = lru_cache(maxsize=4)(SecretIndex)
