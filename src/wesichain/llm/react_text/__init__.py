"""Text ReAct: tool calling for models that only write text."""

from .adapter import TextReAct, text_mode
from .dialects import Dialect, parse
from .parsed import Parsed
from .prompt import render_prompt

__all__ = ["Dialect", "Parsed", "TextReAct", "parse", "render_prompt", "text_mode"]
