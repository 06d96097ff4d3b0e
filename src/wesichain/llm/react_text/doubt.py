"""Doubt: words by which a model says that it does not mean what it wrote, or only quotes it.

Each is a list of words at a place where they can hardly mean anything else; who is in doubt refuses, and
the model is asked to say it again.
"""

from __future__ import annotations

import re

# Letters that nobody sees, or takes for a blank: a word of doubt is one with them, too.
UNSEEN = (
    "\u00ad\u115f\u1160\u180e\u200b\u200c\u200d\u200e\u200f"
    "\u202a\u202b\u202c\u202d\u202e\u2060\u2800\u3164\ufeff\uffa0"
)
_APOSTROPHES = str.maketrans("\u2019\u2018\u02bc\u00b4" + UNSEEN, "''''" + " " * len(UNSEEN))


def _plain(text: str) -> str:
    """The text with apostrophes as they are typed."""
    return text if text.isascii() else text.translate(_APOSTROPHES)


# --- a name that is denied ------------------------------------------------------------------------

_NEGATIONS = frozenset(
    [
        "not",
        "no",
        "none",
        "never",
        "without",
        "avoid",
        "avoiding",
        "cannot",
        "cant",
        "dont",
        "doesnt",
        "wont",
        "shouldnt",
        "mustnt",
        "neednt",
        "neither",
        "nor",
        "nothing",
        "skip",
        "skipping",
        "refrain",
        "refuse",
        "instead",
        "unnecessary",
        "unneeded",
        "forbidden",
        "nicht",
        "kein",
        "keine",
        "keinen",
        "niemals",
        "nie",
        "nunca",
        "jamais",
        "jamás",
        "ningun",
        "ninguna",
        "ninguno",
        "aucun",
        "aucune",
        "pas",
        "non",
        "nein",
        "не",
        "нет",
        "никогда",
        "нельзя",
    ]
)
_NEGATED_CJK = re.compile(
    r"^(?:\u4e0d|\u6ca1\u6709|\u65e0|\u7981\u6b62|\u52ff|\u522b)|\u3057\u306a\u3044|\u3084\u3081|\u4f7f\u308f\u306a"
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def denies(line: str) -> bool:
    """Whether an Action line says what not to do: "do not use delete_file", "~~delete_file~~"."""
    text = _plain(line).strip()
    if "~~" in text or (not text.isascii() and _NEGATED_CJK.search(text)):
        return True
    parts = text.split()
    if len(parts) < 2:
        return False
    # an identifier (`no_reply`) is one word, whatever its parts mean
    words = [word for part in parts if "_" not in part.strip("_") for word in _WORD.findall(part.lower())]
    return any(word.replace("'", "") in _NEGATIONS or word.endswith("n't") for word in words)


# --- an input that is taken back ------------------------------------------------------------------

_DO = r"(?:do|does|did|should|must|need|will|would|can|could|shall|may|am|is|are|was|were|be)"
_NOT = r"(?:\s*+not\b|n[o']?t\b)"
_STRONG = rf"""
    wait\b(?!\s+(?:for|until|till|on|while|to)\b|[\s.\u2026)\]]*+$) | waiting?,?\s+no\b
  | hold\s+on\b | hang\s+on\b
  | h+m+,?\s+(?:no|wait|actually|that|but|maybe\s+not)\b
  | no+\s*+(?:[,!;\u2026\u2014-]|\.\.|\.\s|\.$|wait\b) | nope\b | nah\b
  | never\s*+mind\b | scratch\s+(?:that|this|it)\b | strike\s+(?:that|this)\b | belay\s+that\b
  | (?:please\s+)?(?:disregard|ignore|forget)\s+(?:it|that|this|the\s+(?:above|previous|last|call|action)
      |what\s+i|my)
  | on\s+second\s+thoughts?\b | (?:just\s+)?kidding\b | jk\b
  | oops\b | whoops\b | my\s+(?:mistake|bad)\b | correction\s*+[:,.]
  | i\s+(?:take\s+(?:that|it)\s+back|changed\s+my\s+mind|made\s+(?:a|an)\s+(?:mistake|error)|was\s+wrong
      |misspoke)
  | i\s+{_DO}{_NOT}\s+(?:mean|want\s+(?:to|that|this)|run|call|use|do\s+(?:that|this|it)|execute|delete
      |have\s+(?:called|done|run|used))
  | actually,?\s+(?:no\b|not\b|don'?t|do\s+not|never|wait|scratch|i\s+{_DO}{_NOT}|that(?:'s|\s+is|\s+was
      |\s+would)|this\s+is)
  | (?:that|this|it)(?:'s|\s+is|\s+was|\s+would\s+be)\s+(?:wrong|incorrect|a\s+mistake|not\s+(?:right
      |correct|what|safe|needed|necessary|allowed)|dangerous|unsafe|a\s+bad\s+idea)
  | (?:cancel|abort|undo|revert|retract|withdraw|stop)(?:\s+(?:that|this|it|the\s+(?:call|action))\b
      |\s*+[!.,]|\s*+$)
  | halt(?:[!,.]|\s+mal) | stopp\b | moment\s+mal | doch\s+nicht\b | lieber\s+nicht\b | nein\s*+[,.!]
      | warte\b(?!\s+auf)
  | attends\b | annule[zr]?\b | finalement,?\s+non | non\s*+[,.!]
  | espera\b | mejor\s+no\b | cancela\b | нет\s*+[,.!] | подожди | отмена | стоп\b
  | \u7b49\u7b49 | \u7b49\u4e00\u4e0b | \u4e0d\u5bf9 | \u4e0d\u8981 | \u7b97\u4e86 | \u53d6\u6d88
  | \u9519\u4e86 | \u5f85\u3063\u3066 | \u3084\u3081
"""
_MODAL = (
    r"(?:(?:should|must|will|would|shall)(?:\s*+not\b|n'?t\b)|won'?t\b|refuse\b|decline\b"
    r"|cannot\s+(?:do|run|call|use))"
)
_WRONG = r"(?:wrong|incorrect|dangerous|unsafe|risky|forbidden|a\s+mistake|a\s+bad\s+idea|too\s+risky)"
_UNREAL = (
    r"(?:example|test|hypothetical|illustration|draft|rehearsal|template|placeholder|quote|quotation|joke)"
)
_WEAK = rf"""
    actually,?\s+(?:i|we|let|the|this|that|it|instead)\b | instead\b[,\s] | rather\s*+,
  | but\s+(?:no|not|wait|first|don'?t|do\s+not|i\s+{_MODAL})
  | but\s+(?:that|this|it)\s+(?:is|was|would\s+be)\s+{_WRONG}
  | however,?\s+(?:no\b|i\s+{_MODAL}|(?:that|this|it)\s+(?:is|was|would\s+be)\s+{_WRONG})
  | (?:please\s+)?(?:do\s+not|don'?t|dont|never)\s+(?:run|execute|call|use|do|send|perform|delete|proceed
      |submit|invoke|make|actually)\b
  | (?:i|we|you)\s+(?:{_MODAL}|(?:have\s+)?decided\s+not|would\s+rather|(?:had\s+)?better\s+not)
  | (?:this|that|it|the\s+(?:above|call|action|tool))\s+(?:{_MODAL}|{_DO}{_NOT}\s+(?:be|to\s+be|run|executed
      |needed|necessary|right|what|safe|allowed|correct|a?\s*real|meant|intended))
  | not\s+(?:really|that|this|needed|necessary|executed|run|yet|now|meant|intended|to\s+be|(?:a|for)\s+real)
  | (?:this|that|the\s+above|it)\s+(?:is|was)\s+(?:only|just|merely)?\s*+(?:an?\s+)?{_UNREAL}
  | (?:only|just|merely)\s+(?:an?\s+)?{_UNREAL}
  | let(?:'s|\s+us|\s+me)\s+(?:not|reconsider|rethink|undo|cancel|stop|instead)\b
"""
_START = (
    r"(?:^|(?<=[\n.!?;)\]}>(*`#\u2026\u2014\u2013]))[\s*_>(\[\"'#/`\u2026\u2014\u2013.,;:)\]}-]*+"
    r"(?:thoughts?\s*+:[\s*]*+)?+"
)
_LONGEST = 1_000  # characters behind a call that are looked at
_TAKES_BACK = re.compile(rf"{_START}(?:{_STRONG}|{_WEAK})", re.IGNORECASE | re.VERBOSE)
_TAKES_BACK_LINE = re.compile(rf"^[ \t*_(\[#/>-]*+(?:{_STRONG})", re.IGNORECASE | re.VERBOSE | re.MULTILINE)
_ASIDE = re.compile(
    rf"(?:\s--+|\s*[\u2014\u2013\u2026]|\.\.\.|\s[(\[]|\s//|\s\#)\s*+(?:{_STRONG})",
    re.IGNORECASE | re.VERBOSE,
)
_ASIDE_SIGNS = ("--", "\u2014", "\u2013", "\u2026", "...", "(", "[", "//", "#")  # one of which it has
_ORDERS_NOT_TO = re.compile(
    r"\W*+(?:please\s+)?(?:do\s+not|don'?t|never)\s+(?:run|execute|call|invoke|perform|proceed|do)"
    r"(?:\s+(?:it|this|that|anything)\b|\s*+[^\w\s]|\s*+$)",
    re.IGNORECASE,
)


# Behind a call nothing needs to be said, so that any word of doubt there is one too many...
_DOUBT = re.compile(
    r"""(?<![\w-])(?:not|never|no+|nope|nah|cannot|\w+n't|dont|wrong|mistaken?|incorrect|sorry|oops|ups|whoops|whoa
      |instead|rather|i'd\s+better|better\s+not|cancel\w*|undo|revert\w*|abort\w*|stop\w*|halt|ignore\w*|disregard
      |forget|hypothetical\w*|illustrat\w+|example|jok(?:e|ing)|kidding|harm\w*|danger\w*|unsafe|risky|erases?
      |destroys?|withdraw\w*|retract\w*|i\s+meant|reconsider|rethink|think\s+again|hold\s+o(?:n|ff)|wait|hmm+
      |actually|edit|correction|skip\w*|forbidden|refuse\w*|declin\w+|unintended|draft|rehears\w*|pretend\w*
      |ask\s+(?:the\s+)?\w+\s+first|but\s+first|maybe\s+i|verify|confirm|double-?\s?check|first\s*+[.!]|dry\s+run
      |discard|scrap|nix|void|drastic|take\s+(?:that|it|this|back)|only\s+if|unless|hm+|oh|dear|on\s+reflection|undone|nein|nicht|kein\w*|doch|non|pas|jamais|mejor|nunca
      |espera|\u043d\u0435|\u043d\u0435\u0442|\u0441\u0442\u043e\u043f)(?![\w-])""",
    re.IGNORECASE | re.VERBOSE,
)
# ... but for what is only said of the result that is to come.
_AWAITS = re.compile(
    r"""\bwait(?:ing)?\s+(?:for|until)\b[^.!?\n]{0,200}
      |\b(?:i|we)\b[^.!?\n]{0,20}?(?:n't|\bnot|\bcannot)\s+(?:yet\s+)?(?:know|have|see|answer|tell|say|sure)\b[^.!?\n]{0,200}
      |\b(?:no|not)\s+(?:yet\s+)?(?:the\s+|an?\s+)?(?:results?|observation|output|final|answer|more|longer|only|doubt|problem)\b
        [^.!?\n]{0,200}
      |(?<!only\ )\b(?:whether|if)\b[^.!?\n]{0,200}|[,;]\s+no\s+more\b|\bwait\b[\s.]*+$|\bnow\s+i\s+wait\b""",
    re.IGNORECASE | re.VERBOSE,
)


def takes_back(after: str) -> bool:
    """Whether what stands behind a call takes it back, or may: "Wait, no.", "(do not run this)"."""
    if not after or after.isspace():
        return False
    text = _plain(after[:_LONGEST])
    return bool(_TAKES_BACK.search(text) or _DOUBT.search(_AWAITS.sub(" ", text)))


def orders_not_to(given: str) -> bool:
    """Whether an input is no input but an order: "do not run this"."""
    return bool(_ORDERS_NOT_TO.match(_plain(given[:_LONGEST])))


def takes_back_text(given: str) -> bool:
    """Whether a text, such as an input that is no JSON or an answer, ends in a line that takes it back.

    It may be anybody's text, so that only the plainest words count, at the start of a later line.
    """
    text = _plain(given.strip()[-_LONGEST:])
    first, _, later = text.partition("\n")
    if later and _TAKES_BACK_LINE.search(later):
        return True
    return any(sign in first for sign in _ASIDE_SIGNS) and bool(_ASIDE.search(first))


# --- a call that is only spoken of ----------------------------------------------------------------

_CITES = re.compile(
    r"""\b(?:for\s+(?:example|instance)|e\.g\.|example|such\s+as|would|could|might|hypothetical(?:ly)?|suppose
      |not|never|cannot|don'?t|doesn'?t|won'?t|shouldn'?t|mustn'?t|can'?t|without|instead\s+of|rather\s+than
      |avoid|wrong|incorrect
      |bad|forbidden|unsafe|dangerous|mistake
      |(?:user|page|document|file|e?-?mail|text|message|manual|log|web\s?site|site|result|tool|docs?|documentation
        |instructions?|prompt|attacker|note|comment|article)
        \s+(?:also\s+)?(?:says?|said|reads?|contains?|tells?|told|wrote|writes|pasted|sent|states?|includes?|shows?)
      |imagine|counter-?example|verbatim|according\s+to|typed
      |quot(?:e|es|ed|ing|ation)|inject(?:ed|ion)|sample|template|placeholder|recite|previous(?:ly)?
      |earlier|zum\s+beispiel|par\s+exemple|por\s+ejemplo
    )\b|\b(?:says?|said|states?|stated|wrote|writes|reads|contains|shows|suggests?|suggested|demands?|demanded
      |claims?|printed|returned|pasted|(?:wants?|wanted|told)\s+me)\b[^:.]{0,25}:$|\u4f8b\u5982|\u6bd4\u5982|\u4f8b\u3048\u3070""",
    re.IGNORECASE | re.VERBOSE,
)


_FENCE = re.compile(r"(?:^|\n)[ \t]*(?:`{3,}|~{3,})[ \t]*\w{0,20}$")


def cites(before: str) -> bool:
    """Whether the line that leads to a call only speaks of it: "You would write, for example:"."""
    lead = before[-600:].rstrip()
    if "```" in lead or "~~~" in lead:
        lead = _FENCE.sub("", lead)
    line = _plain(lead.rstrip(" \t\r\n`~").rpartition("\n")[2][-400:]).strip(" *_")
    return line.endswith((":", "\uff1a")) and bool(_CITES.search(line))


_FENCES = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+(\w*+)", re.MULTILINE)
_PLAIN_FENCES = frozenset(
    {"", "text", "txt", "plaintext", "markdown", "md", "json", "xml", "html", "tool_call"}
)


def is_inside_code(before: str) -> bool:
    """Whether a block of code that began before is still open, in a language in which no call is written.

    Nor is one meant in a block that holds blocks of its own (of other or shorter marks): it shows something.
    """
    if "```" not in before and "~~~" not in before:
        return False
    fences: list[tuple[str, str]] = _FENCES.findall(before)
    if len(fences) % 2 == 1 and fences[-1][1].lower() not in _PLAIN_FENCES:
        return True
    outer, nests = "", False
    for mark, info in fences:
        if not outer:
            outer, nests = mark, False
        elif mark.startswith(outer) and not info:
            outer = ""
        else:
            nests = nests or not mark.startswith(outer)
    return bool(outer) and nests


_QUOTE_MARKS = re.compile(r'"++')


def is_inside_quotes(before: str) -> bool:
    """Whether a quotation that began before is still open: its text is somebody else's."""
    if not before.isascii() and (
        before.count("\u201c") > before.count("\u201d") or before.count("\u00ab") > before.count("\u00bb")
    ):
        return True
    if '"' not in before:
        return False
    is_open = False
    for mark in _QUOTE_MARKS.finditer(before):
        at = mark.start()
        opens = (at == 0 or before[at - 1] in " \t\n([:,\u2014-") and before[
            mark.end() : mark.end() + 1
        ].strip()
        if is_open:
            is_open = False
        elif opens:
            is_open = True
    return is_open


_HOLES = frozenset(
    {
        *(
            "answer",
            "your answer",
            "your answer here",
            "the answer",
            "the final answer",
            "final answer",
            "final_answer",
        ),
        *(
            "your final answer",
            "your final answer here",
            "answer here",
            "insert answer here",
            "output",
            "result",
        ),
    }
)
_UNFILLED = frozenset(
    {
        *(
            "...",
            "\u2026",
            "tbd",
            "todo",
            "to be determined",
            "not yet",
            "none yet",
            "not yet known",
            "unknown yet",
        ),
        *(
            "your answer here",
            "the final answer to the question",
            "the final answer to the original input question",
        ),
    }
)


def is_placeholder(answer: str) -> bool:
    """Whether an answer is the form's own hole: "<answer>", "[your answer here]", "..."."""
    text = answer.strip()[:80].lower()
    if text[:1] + text[-1:] in ("<>", "[]", "{}") and text[1:-1].strip() in _HOLES:
        return True
    return text in _UNFILLED or text.rstrip(".!") in _UNFILLED
