"""A retrieval agent: it answers from its documents, with their sources; the model is scripted."""

import re
from collections import Counter
from dataclasses import dataclass
from math import log

from pydantic import BaseModel

from wesichain import Agent, RunContext, ToolContext, tool
from wesichain.testing import ScriptedLlm, calls

TEXTS = {
    "tides": "The harbour gate is closed at high tide. A horn sounds ten minutes before it closes.",
    "mooring": "Guests moor at the yellow buoys. The fee is paid at the office by the crane.",
    "office": "The office by the crane is open from eight to six, and closed on Sundays.",
}
WORD = re.compile(r"[a-z]+")


@dataclass
class Library:
    texts: dict[str, str]

    def best(self, query: str, k: int) -> list[str]:
        """The documents that fit best: a word counts for more the fewer of them have it."""
        bags = {name: Counter(WORD.findall(text.lower())) for name, text in self.texts.items()}
        having = Counter(word for bag in bags.values() for word in bag)
        asked = {*WORD.findall(query.lower())} & having.keys()
        weights = {word: log(len(bags) / having[word]) for word in asked}
        scores = {name: sum(bag[word] * weights[word] for word in weights) for name, bag in bags.items()}
        return [name for name in sorted(scores, key=lambda name: -scores[name]) if scores[name]][:k]


class Answer(BaseModel):
    text: str
    sources: list[str]


@tool(effect="pure")
async def search(ctx: ToolContext[Library], query: str, k: int = 2) -> dict[str, str]:
    """The documents that fit a query best, by name."""
    return {name: ctx.deps.texts[name] for name in ctx.deps.best(query, k)}


def check(ctx: RunContext[Library], answer: Answer) -> Answer:
    if not answer.sources or not ctx.deps.texts.keys() >= {*answer.sources}:
        raise ValueError(f"cite documents that you found, and none besides: {answer.sources}")
    return answer


SCRIPT = [  # it cites a source that it has not found, gets the error, and corrects it
    calls(("search", {"query": "where do guests pay the fee, and when"})),
    calls(("final_answer", {"text": "At the office by the crane, from eight to six.", "sources": ["fees"]})),
    calls(("final_answer", {"text": "At the office, from eight to six.", "sources": ["mooring", "office"]})),
]
MODEL = ScriptedLlm(SCRIPT)
agent = Agent(MODEL, deps_type=Library, output_type=Answer, tools=[search], output_checks=[check])
result = agent.run_sync("Where and when can a guest pay?", deps=Library(TEXTS))
print(result.output, *(source.value for source in result.sources))
