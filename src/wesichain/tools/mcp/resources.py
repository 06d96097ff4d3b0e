"""Resources: resources and prompts of a served server, and completions of their arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from wesichain.core.internal import Value, field, is_array, positions_of
from wesichain.errors import ConfigError
from wesichain.tools.json_schema.issues import preview

from .encode import to_block, to_contents
from .sdk import MCPError, types

Completions = Mapping[str, Sequence[str] | Callable[..., Any]]
_MAX_VALUES = 100  # of a completion, by the protocol
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class ServedResource(Value):
    """A resource: `read()` returns text or bytes, or an awaitable of them.

    If the URI has placeholders, `notes://{day}`, `read` takes their values by name. `complete` has
    suggestions for each placeholder: a list, or a function of the typed text (and optionally other values).
    """

    uri: str
    read: Callable[..., Any]
    name: str = ""
    description: str = ""
    media_type: str = "text/plain"
    complete: Completions = field(default_factory=dict[str, Any])

    @property
    def is_template(self) -> bool:
        return bool(_PLACEHOLDER.search(self.uri))

    @property
    def list_fields(self) -> dict[str, Any]:
        """The fields of a list item, except the URI."""
        about = {"name": self.name or self.uri, "mime_type": self.media_type}
        return {**about, "description": self.description or None}

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the placeholders if a URI matches; else None."""
        parts = _PLACEHOLDER.split(self.uri)
        pattern = "".join(
            f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts)
        )
        found = re.fullmatch(pattern, uri)
        return {name: unquote(value) for name, value in found.groupdict().items()} if found else None


class ServedPrompt(Value):
    """A prompt: `render(**arguments)` returns a text, or a list of texts and parts, each one message.

    `complete` has suggestions for each argument: a list, or a function of the typed text (and optionally the
    other arguments).
    """

    name: str
    render: Callable[..., Any]
    description: str = ""
    complete: Completions = field(default_factory=dict[str, Any])

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
                raise ConfigError(f"the resource {resource.uri!r} has no scheme; use one like notes://today")

    def handlers(self, serve: Callable[..., Any]) -> dict[str, Any]:
        """Return the handlers for the SDK's server. Capabilities without a handler are not announced.

        `serve(function)` returns a handler for a function that can send requests to the client.
        """
        found: dict[str, Any] = {}
        if self._resources:
            found |= {"on_list_resources": self._list, "on_list_resource_templates": self._list_templates}
            found |= {"on_read_resource": serve(self.read)}
        if self._prompts:
            found |= {"on_list_prompts": self._list_prompts, "on_get_prompt": serve(self.get_prompt)}
        offered = [each.complete for each in self._resources]
        if any([*offered, *(each.complete for each in self._prompts.values())]):
            found["on_completion"] = self._complete
        return found

    async def _complete(self, _: object, params: types.CompleteRequestParams) -> types.CompleteResult:
        name, typed = params.argument.name, params.argument.value
        given = dict((params.context.arguments if params.context else None) or {})
        suggested = self._completions(params.ref).get(name, ())
        if callable(suggested):
            values = suggested(typed, given) if positions_of(suggested)[1] > 1 else suggested(typed)
            values = await values if inspect.isawaitable(values) else values
        else:
            values = [each for each in suggested if each.casefold().startswith(typed.casefold())]
        found = [str(each) for each in values]
        completion = types.Completion(
            values=found[:_MAX_VALUES], total=len(found), has_more=len(found) > _MAX_VALUES
        )
        return types.CompleteResult(completion=completion)

    def _completions(self, ref: types.PromptReference | types.ResourceTemplateReference) -> Completions:
        if isinstance(ref, types.PromptReference):
            prompt = self._prompts.get(ref.name)
            if prompt is None:
                raise MCPError(types.INVALID_PARAMS, f"there is no prompt {ref.name!r}")
            return prompt.complete
        for resource in self._resources:
            if resource.uri == ref.uri:
                return resource.complete
        raise MCPError(types.INVALID_PARAMS, f"there is no resource {ref.uri!r}")

    async def _list(self, *_: object) -> types.ListResourcesResult:
        listed = [each for each in self._resources if not each.is_template]
        return types.ListResourcesResult(
            resources=[types.Resource(uri=each.uri, **each.list_fields) for each in listed]
        )

    async def _list_templates(self, *_: object) -> types.ListResourceTemplatesResult:
        listed = [each for each in self._resources if each.is_template]
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=each.uri, **each.list_fields) for each in listed
            ]
        )

    async def read(self, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        for resource in self._resources:
            places = resource.match(uri)
            if places is not None:
                value = await _call(resource.read, places)
                return types.ReadResourceResult(contents=[_contents(uri, resource.media_type, value)])
        raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri!r}")

    async def _list_prompts(self, *_: object) -> types.ListPromptsResult:
        listed = [
            types.Prompt(name=each.name, description=each.description, arguments=each.arguments)
            for each in self._prompts.values()
        ]
        return types.ListPromptsResult(prompts=listed)

    async def get_prompt(self, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = self._prompts.get(params.name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}")
        given = params.arguments or {}
        known = [argument.name for argument in prompt.arguments]
        missing = [each.name for each in prompt.arguments if each.required and each.name not in given]
        if missing or not given.keys() <= set(known):
            message = f"the prompt {params.name!r} takes {', '.join(known) or 'no arguments'}"
            raise MCPError(types.INVALID_PARAMS, message)
        value = await _call(prompt.render, given)
        return types.GetPromptResult(
            description=prompt.description or None,
            messages=[
                types.PromptMessage(role="user", content=to_block(part))
                for part in (value if is_array(value) else [value])
            ],
        )


async def _call(function: Callable[..., Any], args: dict[str, str]) -> Any:
    value = function(**args)
    return await value if inspect.isawaitable(value) else value


def _contents(uri: str, media_type: str, value: Any) -> Any:
    if isinstance(value, str | bytes):
        return to_contents(uri, value, media_type)
    message = f"the resource {uri!r} returned {preview(value)}; it has to return text or bytes"
    raise MCPError(types.INTERNAL_ERROR, message)
