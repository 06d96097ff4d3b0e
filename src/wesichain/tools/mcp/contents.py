"""Contents: resources and prompts that a server offers beside its tools."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from wesichain.core import dataclass, is_array
from wesichain.errors import ConfigError

from .sdk import MCPError, types
from .writing import to_block, to_contents

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class ServedResource:
    """Something to be read: `read()` gives text or bytes, now or later.

    Where the address has places, `notes://{day}`, `read` takes them by name.
    """

    uri: str
    read: Callable[..., Any]
    name: str = ""
    description: str = ""
    media_type: str = "text/plain"

    @property
    def is_template(self) -> bool:
        return bool(_PLACE.search(self.uri))

    def match(self, uri: str) -> dict[str, str] | None:
        """The values of the places, where the address is one of these."""
        parts = _PLACE.split(self.uri)
        pattern = "".join(
            f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts)
        )
        found = re.fullmatch(pattern, uri)
        return {name: unquote(value) for name, value in found.groupdict().items()} if found else None


@dataclass(frozen=True, slots=True)
class ServedPrompt:
    """A prompt: `render(**arguments)` gives a text, or a list of texts and parts, each one message."""

    name: str
    render: Callable[..., Any]
    description: str = ""

    @property
    def arguments(self) -> list[types.PromptArgument]:
        parameters = inspect.signature(self.render).parameters.values()
        return [
            types.PromptArgument(name=parameter.name, required=parameter.default is parameter.empty)
            for parameter in parameters
        ]


class Contents:
    """The resources and prompts of one server."""

    def __init__(self, resources: Iterable[ServedResource], prompts: Iterable[ServedPrompt]) -> None:
        self._resources = [*resources]
        self._prompts = {prompt.name: prompt for prompt in prompts}
        for resource in self._resources:
            if "://" not in resource.uri:
                raise ConfigError(f"the resource {resource.uri!r} has no scheme; write it like notes://today")

    @property
    def handlers(self) -> dict[str, Any]:
        """The handlers of these for the SDK's server; what is not offered is not announced."""
        found: dict[str, Any] = {}
        if self._resources:
            found |= {"on_list_resources": self._list, "on_list_resource_templates": self._list_templates}
            found |= {"on_read_resource": self._read}
        if self._prompts:
            found |= {"on_list_prompts": self._list_prompts, "on_get_prompt": self._get_prompt}
        return found

    async def _list(self, *_: object) -> types.ListResourcesResult:
        listed = [
            types.Resource(
                uri=each.uri,
                name=each.name or each.uri,
                description=each.description or None,
                mime_type=each.media_type,
            )
            for each in self._resources
            if not each.is_template
        ]
        return types.ListResourcesResult(resources=listed)

    async def _list_templates(self, *_: object) -> types.ListResourceTemplatesResult:
        listed = [
            types.ResourceTemplate(
                uri_template=each.uri,
                name=each.name or each.uri,
                description=each.description or None,
                mime_type=each.media_type,
            )
            for each in self._resources
            if each.is_template
        ]
        return types.ListResourceTemplatesResult(resource_templates=listed)

    async def _read(self, _: object, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        for resource in self._resources:
            places = resource.match(uri)
            if places is not None:
                value = await _called(resource.read, places)
                return types.ReadResourceResult(contents=[_contents(uri, resource.media_type, value)])
        raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri!r}")

    async def _list_prompts(self, *_: object) -> types.ListPromptsResult:
        listed = [
            types.Prompt(name=each.name, description=each.description, arguments=each.arguments)
            for each in self._prompts.values()
        ]
        return types.ListPromptsResult(prompts=listed)

    async def _get_prompt(self, _: object, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = self._prompts.get(params.name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}")
        given = params.arguments or {}
        known = [argument.name for argument in prompt.arguments]
        missing = [each.name for each in prompt.arguments if each.required and each.name not in given]
        if missing or not given.keys() <= set(known):
            said = f"the prompt {params.name!r} takes {', '.join(known) or 'nothing'}"
            raise MCPError(types.INVALID_PARAMS, said)
        value = await _called(prompt.render, given)
        return types.GetPromptResult(
            description=prompt.description or None,
            messages=[
                types.PromptMessage(role="user", content=to_block(part))
                for part in (value if is_array(value) else [value])
            ],
        )


async def _called(function: Callable[..., Any], args: dict[str, str]) -> Any:
    value = function(**args)
    return await value if inspect.isawaitable(value) else value


def _contents(uri: str, media_type: str, value: Any) -> Any:
    if isinstance(value, str | bytes):
        return to_contents(uri, value, media_type)
    kind = type(value).__name__
    raise MCPError(types.INTERNAL_ERROR, f"the resource {uri!r} gave a {kind}; it has to give text or bytes")
