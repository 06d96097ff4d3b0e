"""Secrets in sentences (the password is ...) and in commands (`curl -u`, `mysql -p`, `docker login -p`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_compiled = cache(re.compile)

_IS = (
    r"\s(?:(?:for|of|to|on)\s[^\s]{1,40}+\s)?(?:is|was|are|equals|becomes|reads|set|to)"
    r"(?:\s(?:now|set|to|still|just|changed)){0,3}\s?[:=]?\s{1,4}"
)
_WORD = r"""["'`\u201c\u2018]([^\s"'`\u201d\u2019]{3,}+)["'`\u201d\u2019]|([^\s"'`,;<>()\[\]{}]{4,}+)"""
_PASSWORDS = ("password", "passphrase", "passcode", "passwd", "pwd")


def value_in_sentence(text: str, end: int, name: str) -> tuple[int, int] | None:
    """The position of the secret behind a name: `password is ...`, `ENV API_KEY ...`; None without one."""
    is_password = name.endswith(_PASSWORDS)
    link = _compiled(_IS).match(text, end)
    value = _compiled(_WORD).match(text, link.end() if link else end + 1)
    if value is None:
        return None
    start, stop = value.span(value.lastindex or 0)
    while stop > start and text[stop - 1] in ".!?:":
        stop -= 1
    word = text[start:stop]
    if link is None:
        enough = 6 if is_password else 8 if "_" in name else 16
        is_secret = len(word) >= enough and has_letters_and_digits(word) and "://" not in word
    elif value.lastindex == 1:
        is_secret = True
    else:
        is_secret = looks_like_password(word) or (is_password and len(word) >= 4 and word.isdigit())
    return (start, stop) if is_secret else None


def has_letters_and_digits(word: str) -> bool:
    return _compiled(r"\d").search(word) is not None and any(map(str.isalpha, word))


def looks_like_password(word: str) -> bool:
    """Whether a word has letters, and digits, symbols or capitals among them."""
    if len(word) < 5 or not any(map(str.isalpha, word)) or "://" in word:
        return False
    return any(letter.isdigit() or letter in "!@#$%^&*+=~_" for letter in word) or bool(
        _compiled("[a-z][A-Z]").search(word)
    )


# --- commands ---------------------------------------------------------------------------------------

# curl -u bob:secret   --user bob:secret   -ubob:secret   http -a bob:secret
_USER = (
    r"""-(?<![\w\-]-)(?:u|U|a|-user|-auth|-proxy-user)(?:\s{1,4}+|=)?["']?([^\s:"'@/\[]{1,64}+):"""
    r"""((?!//|\[redacted:)[^\s"']++)"""
)
_VALUE = r"""["']?(?!\[redacted:)([^\s"'\-/][^\s"']*+)"""
# The rest of a line after a command or an option, and the option of the password in it.
_OPTIONS = (
    (r"(?:mysql|mariadb|sshpass).*", rf"\s-p{_VALUE}"),
    (r"(?:sshpass|\s-u[ =]|\s--username[ =]).*", rf"\s-p\s{{1,4}}{_VALUE}"),
    (r"redis-cli.*", rf"\s-a\s{{1,4}}{_VALUE}"),
)


def commands(text: str) -> Iterator[tuple[int, int]]:
    """The positions of passwords in command lines."""
    if "-u" in text or "-U" in text or "-a" in text:
        for match in _compiled(_USER).finditer(text):
            user, password = match.groups()
            if not (user.isdigit() and password.isdigit()):  # -u 1000:1000
                yield match.span(2)
    if "-p" in text or "-a" in text:
        for line, option in _OPTIONS:
            for rest in _compiled(line).finditer(text):
                for match in _compiled(option).finditer(text, *rest.span()):
                    if not match[1].replace(":", "").isdigit():  # -p 8080:80
                        yield match.span(1)
