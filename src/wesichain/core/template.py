"""Prompt templates: `{identifier}` is a placeholder, any other brace is text."""

from __future__ import annotations

import re

from wesichain.errors import ConfigError

from .values import Value

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class PromptTemplate(Value):
    """A text with named placeholders. Inserted values are not scanned for placeholders."""

    text: str

    @property
    def variables(self) -> tuple[str, ...]:
        """The placeholders, each once, in order of appearance."""
        return tuple(dict.fromkeys(_PLACEHOLDER.findall(self.text)))

    def render(self, /, **values: object) -> str:
        wanted = self.variables
        missing = [name for name in wanted if name not in values]
        if missing:
            raise ConfigError(f"the template needs {', '.join(map(repr, missing))}; pass it to render()")
        unknown = [name for name in values if name not in wanted]
        if unknown:
            offered = ", ".join(map(repr, wanted)) or "none"
            named = ", ".join(map(repr, unknown))
            raise ConfigError(f"the template has no placeholder {named}; its placeholders: {offered}")
        return _PLACEHOLDER.sub(lambda match: str(values[match.group(1)]), self.text)
