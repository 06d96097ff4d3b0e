"""Text ReAct: tool calling for models that only write text."""

from .adapter import TextReAct, text_mode
from .dialects import Dialect, parse
from .parsed import Parsed, TextCall
from .prompt import render_prompt
from .react import Grammar

__all__ = ["Dialect", "Grammar", "Parsed", "TextCall", "TextReAct", "parse", "render_prompt", "text_mode"]
