"""The examples of the edge do what they say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests.conftest import ROOT
from wesichain import LlmResponse, Role, ToolCall
from wesichain.testing import FunctionLlm


def support_desk() -> Any:
    path = ROOT / "examples" / "support_desk" / "service.py"
    spec = importlib.util.spec_from_file_location("support_desk", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["support_desk"] = module
    spec.loader.exec_module(module)
    return module


def reply(request: Any) -> Any:
    done = [message for message in request.messages if message.role is Role.TOOL]
    asks_for_money = "Refund" in request.messages[-1].text
    if not done:
        name = "refund" if asks_for_money else "find_order"
        return LlmResponse(tool_calls=(ToolCall("1", name, {"order": "A-7"}),))
    return f"Done: {done[-1].text}"


def test_the_support_desk(tmp_path: Path) -> None:
    desk = support_desk()
    app = desk.Service(desk.make_agent(FunctionLlm(reply)), tmp_path).app
    ann, ben, eve, nobody = (TestClient(app) for _ in range(4))
    for client, user in ((ann, "ann"), (ben, "ben"), (eve, "eve")):
        assert client.post("/login", json={"user": user}).status_code == 200
    assert nobody.post("/login", json={"user": "mallory"}).status_code == 401
    assert "page.js" in nobody.get("/").text
    assert nobody.get("/page.js").status_code == 200
    asked = {"task": "Refund order A-7", "run_id": "r", "conversation": "c", "stay": True}
    assert nobody.post("/agent/runs", json=asked).status_code == 401
    waiting = ann.post("/agent/runs", json=asked)
    assert waiting.status_code == 202
    decision = {waiting.json()["pending"][0]["token"]: {"kind": "approve"}}
    assert eve.get("/agent/runs/r/events").status_code == 404
    assert eve.post("/agent/runs/r/decisions", json=decision).status_code == 404
    done = ben.post("/agent/runs/r/decisions", json=decision)
    assert done.json()["output"] == "20 paid back for A-7, approved by ben."
    assert ann.post("/agent/runs", json={"task": "How much was it?"}).json()["output"] == (
        "20 was paid for order A-7."
    )
