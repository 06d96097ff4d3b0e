"""Vocabulary: the words that a lesson may be made of, so that it can quote nobody.

A lesson in a model's words is taken only if every word of it is the name of a tool or a parameter, stands in
what the application's author wrote about the tools, is a common word of rules, or is a form such as
YYYY-MM-DD. A word that only the task, an answer or a result has cannot get through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wesichain.core import is_array, is_object

LONGEST = 200  # characters
_TOKEN = re.compile(r"[A-Za-z0-9_.\-]*[A-Za-z0-9_]|[^\sA-Za-z0-9_]")
_FORM = re.compile(r"(?=.*[YMDH])(?:[YMDHWSw]{1,4}|[-:/.T])+")  # YYYY-MM-DD, HH:MM, YYYY-Www
_SHAPE = re.compile(r"(?=.*[A0].*[-/.:A0])(?:A{1,4}|0{1,6}|[-/.:])+")  # letters and digits of a code
_NUMBERS = {*map(str, range(11)), "24", "60", "100", "1000"}
_MARKS = set(".,;:()'-%/")
_RULES = """
a about above absent accept accepts after again all alone already also always an and another answer answers
any apart are argument arguments as ask asked at available be because been before beginning below between
both but by call called calling calls can cannot case cases cent centimetres cents character characters
check checked checking code codes comma complete confirm confirmed contain contains convert copy correct
count currency date dates day days decimal decimals default digit digits divide divided do does done each
earlier either empty end ends error errors euro euros every exact exactly exist exists fail failed fails
false field fields final find first fixed for form format formats found from full general get give given
gives go grams greater half halves has have hour hours how hundredth hundredths id identifier ids if in
include including input instead integer is iso it item items its key keys kilograms kind known large last
later least leave length less letter letters like list long look lower lowercase make many may mean means
metres millimetres minute minutes missing month months more most multiply must name named names need needed
needs never new next no none not nothing now null number numbers of off old on once one ones only optional
or order other out output own parameter parameters part pass per percent plain please point pound pounds
prefix present previous put quarter quarters read ready record records repeat required requires result
results retry return returned returns right same second seconds see send separate set short should show
since single size small so some space spaces start starts state status step steps still stop string such
take taken takes task tell tenth tenths text than that the their them then there these they this those
thousandth thousandths three time times to together tool tools true try turn two type unit units unless
until upper uppercase use used uses using valid value values wait was way week weeks weight were what when
where whether which while whole why with without word words work works write written wrong year years yes
yet you your zero
"""
PLAIN = frozenset(_RULES.split())
_WORD = re.compile(r"[^\W\d_]+")


def words_of(specs: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """What an author wrote about tools: names, descriptions, and the values that a schema allows."""
    found: set[str] = set()
    for spec in specs:
        for text in _texts(spec):
            found.add(text.casefold())
            found.update(word.casefold() for word in _WORD.findall(text))
    return frozenset(found)


def is_plain(rule: str, *, known: frozenset[str]) -> bool:
    """Whether a rule is short and made of words that may be shown to anybody."""
    if not 0 < len(rule) <= LONGEST or len(rule.split()) < 3:
        return False
    tokens = _TOKEN.findall(rule)
    return all(_is_known(token, known) for token in tokens) and len("".join(tokens)) == len(
        "".join(rule.split())
    )


def _is_known(token: str, known: frozenset[str]) -> bool:
    word = token.casefold()
    parts = [part for part in re.split(r"[-.]", word) if part]
    return (
        word in known
        or token in _MARKS
        or token in _NUMBERS
        or word.removesuffix("s") in known
        or _FORM.fullmatch(token) is not None
        or _SHAPE.fullmatch(token) is not None
        or (bool(parts) and all(part in PLAIN or part in known or part in _NUMBERS for part in parts))
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif is_array(value):
        for item in value:
            yield from _texts(item)
