"""Secrets behind names: `password=...`, `"api_key": "..."`, `--token ...`, headers, elements, comparisons."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache

from wesichain.core.internal import is_placeholder, is_secret_name, may_be_secret_name

from .phrases import has_letters_and_digits, looks_like_password, value_in_sentence

_compiled = cache(re.compile)  # at first use: it takes milliseconds

_PARTS = ("pass", "pw", "secret", "token", "key", "auth", "credential", "cookie", "jwt", "sess")
_SPOKEN = ("pass", "pw", "secret", "token", "key")  # searched for in sentences
_NAME = r"[A-Za-z0-9_.\-]{1,64}+"
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_OWNED_KEY = r"(?i)\b(?:access|account|api|auth|client|encryption|private|secret|service|signing) \Z"
# What links a name and its value. The name itself may be quoted, in brackets, or followed by its type.
_QUOTE = r"""(?:[bBfFrRuU@$]{0,2}\\{0,8}["'`])"""
_TYPE = r":\s?&?[A-Za-z][\w.]{0,32}+(?:\[\w{1,32}\])?(?:\s?\|\s?None)?\s?="
_LINK = (
    r"""(?P<close>(?:\[\w{0,8}\])?+\\{0,8}["'`\]]{0,3}+)(?:"""
    r"""[\s,;}]{0,48}+["']?value["']?\s{0,4}+[=:]\s{0,4}+|"""  # name: ..., value: ...
    rf"""\s{{0,8}}+(?:{_TYPE}(?=\s?{_QUOTE})|(?P<mark>:=|=>|[=!]==?|[=:])=?)\s{{0,8}}+"""  # name=  name:
    r"""(?P<block>[|>][+\-]?[ \t]{0,4}+\r?\n\s{0,40}+)?+|"""  # of a block in YAML
    rf"""(?<=["'])\s{{0,4}}+(?P<pair>,)\s{{0,4}}+(?={_QUOTE})|"""  # ('name', '...')
    rf"""(?<=\w)(?P<call>\()(?={_QUOTE}))"""  # name("...")
)
_QUOTED = (
    r"""(?s)[bBfFrRuU@$]{0,2}(?:"((?:[^"\\]|\\.)*+)|'((?:[^'\\]|\\.)*+)|`([^`]*+))|"""
    r"""\\{1,8}["']((?:[^"'\\]|\\{3}["']|\\[^"'])*+)"""  # JSON within JSON
)
_GROUP = r"""[\[(](?=\s?[bru]?["'])[^\])\r\n]*+[\])]?"""  # auth=('user', 'password')
_LINE = r"[^\r\n]++"
_BARE = r"""(?![={])[^\s"'\\&;,<>]++"""
# Basic dTpw   a=b; c=d   Digest a="b", c="d"
_HEADER = (
    r"""(?:[A-Za-z][\w\-]*+[ \t]++)?[^\s;,"'\\]++(?:"[^"\n]*+")?"""
    r"""(?:[;,]\s*+[\w.\-]++=[^\s;,"'\\]*+(?:"[^"\n]*+")?|;[\w\-]++)*+"""
)
_HEADERS = ("authorization", "cookie")
_COMPARED = r"""(["'`])((?:(?!\1)[^\n]){1,128})\1\s?[!=]==?\s?\Z"""  # "..." == name
_KEY = r"(?<!\w)(?=[A-Za-z_\-]*\d)(?=[\d_\-]*[A-Za-z])[\w\-]{16,}"  # letters and digits
_HARMLESS = frozenset(
    {"none", "null", "nil", "true", "false", "str", "string", "text", "int", "integer", "bool", "any",
     "object", "required", "optional", "missing", "invalid", "unset", "empty", "redacted", "await", "new",
     "yield"}
)  # fmt: skip
# ${NAME}  $NAME  ${{ name }}  {{ name }}  <name>  %s  ***
_VARIABLE = (
    r"\$\{\{[^{}]*+\}\}|\$?\{\{?[^{}\s]*+\}?\}|\$\([^()]*+\)|\$[A-Z][A-Z0-9_]*+(?!\w)|\$[a-z_]++(?!\w)"
    r"|\{\{[^{}]*+\}\}|<[^<>\n]*+>|%(?:\(\w++\))?[sdr]|\*++|\.{3}|[xX]{4,}+(?!\w)"
)
# os.environ["NAME"]  getpass()  self.token
_CODE = (
    r"[A-Za-z_][A-Za-z_.]*+\w*+[(\[]|"
    r"(?:self|this|process\.env|env|os|config|settings)(?:\.[A-Za-z_]\w*+)++(?=[\s,;)\]}`]|\Z)"
)
_LONGEST = 256  # letters of a value that has to look like a secret
_AFTER = ("", *" \t\r\n,;&)]}'\"`")  # what may follow a variable


def named(text: str) -> Iterator[tuple[int, int]]:
    """The positions of the values of every `name=value`, `name: value`, `"name": "value"`, `--name value`."""
    is_marked = ":" in text or "=" in text or "'," in text or '",' in text or "</" in text or "(" in text
    if not is_marked and (len(text) < 12 or " " not in text):
        return
    low = text.lower()
    parts = _PARTS if is_marked else _SPOKEN
    for part in parts:
        if part in low:
            break
    else:
        return
    if len(low) != len(text):  # a letter with a longer lower case: keep the positions aligned
        low = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    end = 0
    for spot in sorted({spot for part in parts for spot in _occurrences(low, part)}):
        if end - spot > 256:
            continue  # inside a value; near its end, a name may have its own value
        found = _value_of_name(text, spot)
        if found is not None:
            end = max(end, found[1])
            yield found


def _occurrences(text: str, part: str) -> Iterator[int]:
    spot = text.find(part)
    while spot >= 0:
        yield spot
        spot = text.find(part, spot + len(part))


def _value_of_name(text: str, spot: int) -> tuple[int, int] | None:
    """The position of the secret that belongs to the name around `spot`; None without one."""
    matched = _compiled(_NAME).match(text, spot)
    if matched is None:  # a letter whose lower case is ASCII
        return None
    start, end = spot, matched.end()
    floor = max(0, spot - 64)
    while start > floor and text[start - 1] in _NAME_LETTERS:
        start -= 1
    if text[max(0, start - 10) : start].endswith(("[redacted:", "://")):
        return None  # the label of a placeholder; the user of a URL
    name = text[start:end]
    link = _compiled(_LINK).match(text, end)
    if link is not None and (_ends_quotation(text, start, link) or (link["call"] and not name.isalpha())):
        link = None
    if link is None and ("--" in name or name.startswith("-")):  # --token ...
        link = _compiled(" (?!-)").match(text, end)
    if not is_secret_name(name) and not (
        name.lower() == "key" and _compiled(_OWNED_KEY).search(text, max(0, start - 16), start)
    ):
        name = "query_key" if name == "key" and text[start - 1 : start] in ("?", "&") else name
        return None if link is None or not may_be_secret_name(name) else _odd_value(text, link, name)
    if text.startswith((">", '">'), end):
        return _element_at(text, start, text.index(">", end))
    if link is not None:
        return _value_at(text, link, name.lower())
    if "==" in text[max(0, start - 4) : start]:
        compared = _compiled(_COMPARED).search(text, max(0, start - 140), start)
        return None if compared is None else compared.span(2)
    if not text.startswith(" ", end):
        return None
    spoken = any(part in name.lower() for part in _SPOKEN)
    found = value_in_sentence(text, end, name.lower()) if spoken else None
    return None if found is None or _is_harmless(text[slice(*found)]) else found


def _ends_quotation(text: str, start: int, link: re.Match[str]) -> bool:
    """Whether the quote behind the link belongs to the one in front of the name: input("Password: ")."""
    quote, after = text[start - 1 : start], text[link.end() : link.end() + 2]
    return quote in ("'", '"') and not link["close"] and after[:1] == quote and after[1:] in _AFTER


def _odd_value(text: str, link: re.Match[str], name: str) -> tuple[int, int] | None:
    """The value of a name that does not tell, if it looks like a password or a key."""
    found = _value_at(text, link, "", link.end() + _LONGEST)
    return found if found is not None and is_secret_value(name, text[slice(*found)]) else None


def is_secret_value(name: str, value: str) -> bool:
    """Whether the value of a name that may be secret looks like a password or a key."""
    if not may_be_secret_name(name) or not value or _is_harmless(value):
        return False
    if name.isupper():
        return len(value) >= 8 and has_letters_and_digits(value) and (" " not in value or len(value) >= 40)
    if name.lower().endswith("key"):
        return has_letters_and_digits(value) and _compiled(_KEY).search(value) is not None
    return looks_like_password(value) or value[0] in "[("


def _element_at(text: str, start: int, name_end: int) -> tuple[int, int] | None:
    """The text of an element: <password>...</password>."""
    end = text.find("<", name_end)
    opens = start > 0 and text[start - 1] in '<:"'  # the name may have a namespace, or be an attribute
    if not opens or not text.startswith("</", end) or end - name_end < 2:
        return None
    return None if _is_harmless(text[name_end + 1 : end].strip()) else (name_end + 1, end)


def _value_at(text: str, link: re.Match[str], name: str, stop: int = sys.maxsize) -> tuple[int, int] | None:
    begin, mark = link.end(), link.groupdict().get("mark") or ""
    is_compared = "==" in link[0] or "!=" in link[0]
    quoted = _compiled(_QUOTED).match(text, begin, stop)
    if quoted is not None:
        start, end = quoted.span(quoted.lastindex or 0)
        is_key = link.groupdict().get("pair") and text[end + 1 : end + 3].lstrip().startswith(":")
        is_template = "f" in text[begin:start].lower() and "{" in text[start:end]
        if is_key or is_template or (is_compared and end - start < 4):
            return None
    else:
        is_block = link.groupdict().get("block")
        pattern = _LINE if is_block else _HEADER if name.endswith(_HEADERS) else _BARE
        bare = _compiled(_GROUP).match(text, begin, stop) or _compiled(pattern).match(text, begin, stop)
        if bare is None or is_compared or _is_reference(text, begin):
            return None
        start, end = bare.span()
        if mark == ":" and text.startswith("//", start):
            return None  # the scheme of a URL
        if mark == ":" and end - start < (3 if "pass" in name or "pw" in name else 6):
            return None  # prose: "token: a word or a part of one"
    if name.endswith("pwd") and text.startswith(("/", "~"), start):
        return None  # a working directory
    return None if _is_harmless(text[start:end]) else (start, end)


def _is_reference(text: str, begin: int) -> bool:
    """Whether a value without quotes is a variable or code. A secret goes on with other letters."""
    if _compiled(_CODE).match(text, begin):
        return True
    variable = _compiled(_VARIABLE).match(text, begin)
    return variable is not None and text[variable.end() : variable.end() + 1] in _AFTER


def _is_harmless(value: str) -> bool:
    return (
        not value
        or value.lower() in _HARMLESS
        or is_placeholder(value)
        or _compiled(rf"(?:[A-Za-z]++ )?(?:{_VARIABLE})").fullmatch(value) is not None
    )
