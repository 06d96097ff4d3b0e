"""The client that the official conformance suite runs: `McpServer`, doing what each scenario wants done.

python -m tests.tools.mcp.conformance.client URL      (the suite puts the scenario's name into the environment)
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from wesichain.core import ToolCall
from wesichain.tools import ToolSet
from wesichain.tools.mcp import McpServer

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
ARGS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}


class InMemory(TokenStorage):
    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Consent:
    """A person who always agrees: follows the address, and reads the code from where it leads."""

    def __init__(self) -> None:
        self.result = AuthorizationCodeResult(code="", state=None)

    async def redirect(self, url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=False) as client:
            location = (await client.get(url)).headers["location"]
        query = parse_qs(urlsplit(location).query)
        self.result = AuthorizationCodeResult(
            code=query["code"][0],
            state=query.get("state", [None])[0],
            **({"iss": query["iss"][0]} if "iss" in query else {}),
        )

    async def callback(self) -> AuthorizationCodeResult:
        return self.result


def provider(url: str) -> OAuthClientProvider:
    consent = Consent()
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    known = None
    if "client_id" in context:
        known = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=context.get("client_secret"),
            redirect_uris=["http://localhost:3000/callback"],  # type: ignore[list-item]  # pydantic reads it
            token_endpoint_auth_method="client_secret_basic",
        )
    return OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            client_name="wesichain",
            redirect_uris=["http://localhost:3000/callback"],  # type: ignore[list-item]  # pydantic reads it
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        storage=InMemory(known),
        redirect_handler=consent.redirect,
        callback_handler=consent.callback,
        client_metadata_url="https://conformance-test.local/client-metadata.json",
    )


async def agree(message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {}


async def main(url: str) -> None:
    auth = provider(url) if SCENARIO.startswith("auth/") else None
    async with McpServer.http(url, auth=auth, on_elicit=agree) as server:
        registry = ToolSet.of(server.tools).build()
        for name in registry.names:
            result = await registry.dispatch(ToolCall("1", name, ARGS.get(name, {})))
            print(result.value if result.ok else result.error)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
