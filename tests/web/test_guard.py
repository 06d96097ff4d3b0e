"""The guard: who is let in, and what every answer carries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from wesichain.web import create_app

from .conftest import viewing
from .kit import HOST, TOKEN

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def folder(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests of this file: none of them gets in."""
    return copytree(stored, tmp_path_factory.mktemp("guarded"), dirs_exist_ok=True)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with viewing(folder) as client:
        yield client


PATHS = [
    "/api/runs", "/api/runs/paris", "/api/runs/paris/events", "/api/diff?a=paris&b=oslo", "/api/stats",
    "/api/playbook", "/api/playbook/travel", "/api/approvals", "/api/none",
]  # fmt: skip


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(None, id="without-a-token"),
        pytest.param("Bearer wrong", id="with-a-wrong-token"),
        pytest.param(f"Basic {TOKEN}", id="with-another-scheme"),
        pytest.param(f"Bearer {TOKEN}x", id="with-a-longer-token"),
        pytest.param(f"Bearer {TOKEN[:-1]}", id="with-a-shorter-token"),
        pytest.param("Bearer ", id="with-an-empty-token"),
    ],
)
def test_the_api_wants_the_token(client: TestClient, authorization: str | None) -> None:
    stranger = TestClient(client.app, base_url=HOST)
    for path in (*PATHS, f"/api/runs?token={TOKEN}"):
        answer = stranger.get(path, headers={} if authorization is None else {"authorization": authorization})
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "token" in answer.json()["error"]


@pytest.mark.parametrize("at", ["/viewer", "/static", "/"])
def test_a_viewer_inside_another_app_wants_it_too(stored: Path, at: str) -> None:
    inner = create_app(stored / "runs", token=TOKEN, hosts=["h"])
    outer = Starlette(routes=[Mount(at, inner)])
    with TestClient(outer, base_url="http://h") as client:
        for path in ("api/runs", "//api/runs", "API/runs", "none", "api"):
            assert client.get(f"{at.rstrip('/')}/{path}").status_code == 401, path


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("127.0.0.1:8321", 200, id="ours"),
        pytest.param("localhost", 200, id="a-name-without-a-port"),
        pytest.param("LOCALHOST:1234", 200, id="a-name-that-stands-for-every-port"),
        pytest.param("127.0.0.1:8322", 400, id="another-port"),
        pytest.param("127.0.0.1", 400, id="no-port"),
        pytest.param("evil.example", 400, id="another-name"),
        pytest.param("evil.example:8321", 400, id="a-name-that-was-rebound"),
        pytest.param("localhost.evil.example", 400, id="a-longer-name"),
        pytest.param("localhost:80@evil.example", 400, id="a-name-with-a-user"),
        pytest.param("localhost.", 400, id="a-dot-behind"),
        pytest.param("", 400, id="an-empty-one"),
    ],
)
def test_only_our_hosts_are_served(client: TestClient, host: str, status: int) -> None:
    for path in ("/", "/static/main.js", "/api/runs"):
        assert client.get(path, headers={"host": host}).status_code == status, path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 200, id="none"),
        pytest.param({"origin": HOST}, 200, id="our-own"),
        pytest.param({"origin": "http://evil.example"}, 403, id="another"),
        pytest.param({"origin": "null"}, 403, id="null"),
        pytest.param({"origin": ""}, 403, id="empty"),
        pytest.param({"origin": "http://127.0.0.1:1"}, 403, id="another-port"),
        pytest.param({"origin": "http://127.0.0.1:8321.evil.example"}, 403, id="a-longer-name"),
        pytest.param({"sec-fetch-site": "same-origin"}, 200, id="the-browser-says-same-origin"),
        pytest.param({"sec-fetch-site": "cross-site"}, 403, id="the-browser-says-cross-site"),
        pytest.param({"sec-fetch-site": "same-site"}, 403, id="the-browser-says-same-site"),
    ],
)
def test_other_origins_are_refused(client: TestClient, headers: Any, status: int) -> None:
    for path in ("/api/runs", "/api/runs/paris/events", "/api/approvals"):
        answer = client.get(path, headers=headers)
        assert answer.status_code == status, path
        assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        pytest.param("text/plain", "{}", 415, id="text"),
        pytest.param("application/x-www-form-urlencoded", "a=b", 415, id="a-form"),
        pytest.param("multipart/form-data; boundary=x", "", 415, id="a-form-with-files"),
        pytest.param("", "{}", 415, id="no-content-type"),
        pytest.param("application/json-evil", "{}", 415, id="a-longer-name"),
        pytest.param("application/json", "{", 400, id="broken-json"),
        pytest.param("application/json", '{"a":1,"a":2}', 400, id="a-key-given-twice"),
        pytest.param("application/json; charset=utf-8", "[]", 400, id="no-object"),
        pytest.param("application/json", " " * 1_048_576, 400, id="as-long-as-allowed"),
        pytest.param("application/json", " " * 1_048_577, 413, id="too-long"),
    ],
)
def test_a_write_is_json(client: TestClient, kind: str, body: str, status: int) -> None:
    for path in ("/api/approvals/abc", "/api/playbook/travel/rollback"):
        answer = client.post(path, content=body, headers={"content-type": kind})
        assert answer.status_code == status, path


def test_a_write_says_how_long_it_is(client: TestClient) -> None:
    chunks = client.post(
        "/api/approvals/abc", content=iter([b"{}"]), headers={"content-type": "application/json"}
    )
    assert (chunks.status_code, chunks.json()) == (411, {"error": "say how long the body is"})


def test_every_answer_carries_the_rules(client: TestClient) -> None:
    for path in (*PATHS, "/", "/static/style.css", "/static/none", "/none"):
        carries_the_rules(client.get(path).headers)


def carries_the_rules(headers: Any) -> None:
    policy = dict(rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "no-store" in headers["cache-control"] or "no-cache" in headers["cache-control"]


IDS = (
    "..", "../secret", "..%2fsecret", "%2e%2e%2fsecret", "..%5csecret", "%2fetc%2fpasswd", "a%00b", "a.b",
    "a" * 300, "%EF%BC%8E%EF%BC%8E", "%EF%BC%8Fetc", "CON.jsonl", "~", "-paris", "none",
    "20260101T120000.250000Z-..%2f..%2fsecret", "20260101T120000.250000Z-..",
)  # fmt: skip


def test_an_id_is_never_a_way_elsewhere(client: TestClient, folder: Path) -> None:
    secret = folder / "secret.jsonl"
    secret.write_bytes(next((folder / "runs").iterdir()).read_bytes().replace(b"weather", b"canary"))
    for path in ("/api/runs/{}", "/api/runs/{}/events", "/api/diff?a=paris&b={}"):
        for name in IDS:
            answer = client.get(path.format(name))
            assert answer.status_code in (307, 404), (path, name)
            assert "canary" not in answer.text


def test_only_the_pages_are_static(client: TestClient) -> None:
    for name in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "/etc/passwd", "main.js%00", "MAIN.JS"):
        assert client.get(f"/static/{name}").status_code == 404, name
