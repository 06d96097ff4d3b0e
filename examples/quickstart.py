"""The quickstart of the README with a scripted model: no key, no download."""

from wesichain import Agent, tool
from wesichain.testing import ScriptedLlm, calls
from wesichain.trace import ConsoleSink


@tool
def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


model = ScriptedLlm([calls(("word_count", {"text": "the quick brown fox"})), "It has four words."])

agent = Agent(model, tools=[word_count], events=ConsoleSink())
result = agent.run_sync("How many words are in 'the quick brown fox'?")
print(result.output)
