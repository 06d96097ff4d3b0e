"""References: resolves `$ref` inside the same document. Remote references are never fetched."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from wesichain.core.internal import Mutable, field, is_array, is_object
from wesichain.errors import ToolDefinitionError

from .issues import shorten
from .shape import children, is_schema

_INDEX = re.compile("[0-9]{1,9}")
METASCHEMA = "https://json-schema.org/draft/2020-12/schema"


class Resource(Mutable):
    """A schema with an `$id`, and the anchors inside it."""

    uri: str
    root: Any
    anchors: dict[str, Any] = field(default_factory=dict[str, Any])


class References:
    """The resources of one document, which has to be a copy: schemas are distinguished by object identity."""

    def __init__(self, document: Any) -> None:
        root = Resource("", document)
        self._resources = {"": root}
        self._resource_of: dict[int, Resource] = {}
        self._dynamic: set[str] = set()
        self._collect(document, root)

    def _collect(self, schema: Any, resource: Resource) -> None:
        if not is_object(schema):
            return
        identity = schema.get("$id")
        if isinstance(identity, str) and not identity.startswith("#"):
            resource = Resource(_join(resource.uri, urldefrag(identity).url), schema)
            self._resources[resource.uri] = resource
        self._resource_of[id(schema)] = resource
        anchor, dynamic = schema.get("$anchor"), schema.get("$dynamicAnchor")
        if isinstance(anchor, str):
            resource.anchors[anchor] = schema
        if isinstance(dynamic, str):
            if dynamic in self._dynamic:
                raise ToolDefinitionError(
                    f"schema: the $dynamicAnchor {shorten(dynamic)!r} is given twice; references "
                    f"that depend on the dynamic scope are not supported: use $anchor and $ref"
                )
            self._dynamic.add(dynamic)
            resource.anchors[dynamic] = schema
        for _, child in children(schema):
            self._collect(child, resource)

    def resolve(self, reference: str, origin: Any) -> Any:
        """Return the target of a `$ref` inside `origin`."""
        resource = self._resource_of.get(id(origin), self._resources[""])
        uri, fragment = urldefrag(reference)
        if uri:
            found = self._resources.get(uri) or self._resources.get(_join(resource.uri, uri))
            if found is None:
                raise ToolDefinitionError(
                    f"schema: $ref {shorten(reference)!r} is a remote reference, and these are "
                    f"never fetched: copy the schema into $defs"
                )
            resource = found
        fragment = unquote(fragment)
        if not fragment:
            return resource.root
        target = _point_to(resource.root, fragment) if fragment[0] == "/" else resource.anchors.get(fragment)
        if not is_schema(target):
            raise ToolDefinitionError(f"schema: $ref {shorten(reference)!r} has no target in the schema")
        if is_object(target):
            self._resource_of.setdefault(id(target), resource)
        return target


def _join(base: str, uri: str) -> str:
    # urljoin does not support URNs, which are always absolute.
    return uri if uri.startswith("urn:") else urljoin(base, uri)


def _point_to(root: Any, pointer: str) -> Any:
    """Return the target of a JSON pointer; None if it has none."""
    found = root
    for token in pointer.split("/")[1:]:
        step = token.replace("~1", "/").replace("~0", "~")
        if is_object(found):
            found = found.get(step)
        elif is_array(found):
            found = dict(enumerate(found)).get(int(step)) if _INDEX.fullmatch(step) else None
        else:
            return None
    return found
