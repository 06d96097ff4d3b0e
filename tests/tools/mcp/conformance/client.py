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
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from wesichain.errors import ToolError
from wesichain.tools.mcp import McpServer

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
EXAMPLES = {"string": "text", "integer": 5, "number": 3, "boolean": True, "object": {}, "array": []}


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


async def provider(url: str) -> httpx2.Auth:
    """The SDK's provider for what the scenario is about."""
    if SCENARIO == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(
            url, InMemory(None), CONTEXT["client_id"], CONTEXT["client_secret"]
        )
    if SCENARIO == "auth/client-credentials-jwt":
        client = CONTEXT["client_id"]
        signed = SignedJWTParameters(
            issuer=client,
            subject=client,
            signing_key=CONTEXT["private_key_pem"],
            signing_algorithm=CONTEXT["signing_algorithm"],
        )
        return PrivateKeyJWTOAuthProvider(url, InMemory(None), client, signed.create_assertion_provider())
    if SCENARIO == "auth/enterprise-managed-authorization":
        return await identity_provider(url)
    return interactive_provider(url)


async def identity_provider(url: str) -> httpx2.Auth:
    """A company's own identity: its provider turns the user's token into one for the server."""
    parts = urlsplit(url)
    where = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    async with httpx2.AsyncClient() as web:
        issuer = (await web.get(where)).json()["authorization_servers"][0]

    async def exchange(audience: str, resource: str) -> str:
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": CONTEXT["idp_id_token"],
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "client_id": CONTEXT["idp_client_id"],
            "audience": audience,
            "resource": resource,
        }
        async with httpx2.AsyncClient() as web:
            return str((await web.post(CONTEXT["idp_token_endpoint"], data=form)).json()["access_token"])

    return IdentityAssertionOAuthProvider(
        url,
        InMemory(None),
        CONTEXT["client_id"],
        CONTEXT["client_secret"],
        issuer,
        exchange,
        token_endpoint_auth_method="client_secret_basic",
    )


def interactive_provider(url: str) -> OAuthClientProvider:
    consent = Consent()
    known = None
    if "client_id" in CONTEXT:
        known = OAuthClientInformationFull(
            client_id=CONTEXT["client_id"],
            client_secret=CONTEXT.get("client_secret"),
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


def calls(server: McpServer) -> list[tuple[str, dict[str, Any]]]:
    """The calls that the scenario names, else one of each tool with arguments that its schema allows."""
    if "toolCalls" in CONTEXT:
        return [(each["name"], each["arguments"]) for each in CONTEXT["toolCalls"]]
    schemas = {tool.name: dict(tool.spec.parameters) for tool in server.tools}
    examples = {
        name: {key: EXAMPLES.get(each.get("type"), "text") for key, each in _properties(schema).items()}
        for name, schema in schemas.items()
    }
    if "json_schema_echo" in schemas:
        examples["json_schema_echo"] = {"schema": schemas["json_schema_2020_12_tool"]}
    return [*examples.items()]


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    return dict(schema.get("properties", {}))


async def read_all(server: McpServer) -> None:
    """Read the resources and prompts that the server lists."""
    for resource in await server.resources():
        await server.read(resource.uri)
    for prompt in await server.prompts():
        await server.prompt(prompt.name, {name: "text" for name, _ in prompt.arguments})


async def main(url: str) -> None:
    auth = await provider(url) if SCENARIO.startswith("auth/") else None
    async with McpServer.http(url, auth=auth, on_elicit=agree) as server:
        for name, args in calls(server):
            try:
                print(await server.call(name, args))
            except ToolError as error:
                print(error)
        if SCENARIO == "http-standard-headers":
            await read_all(server)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
