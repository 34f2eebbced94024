"""A client of `tugcode mcp`: as a real process over pipes, and in this process without any."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tugtool.server.mcp.protocol import CAPABILITIES_KEY, MODERN_VERSIONS, VERSION_KEY, McpProtocol
from tugtool.server.mcp.session import LocalSession

MODERN = {VERSION_KEY: MODERN_VERSIONS[-1], CAPABILITIES_KEY: {}}
TASK = {"kind": "task", "ordinal": 0, "status": "completed"}


def request(method: str, number: object = 1, **params: object) -> dict:
    """A request of the first era."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class ToolResult:
    """The result of a tool."""

    def __init__(self, answer: dict) -> None:
        self.answer = answer
        self.result = answer["result"]
        self.failed = self.result["isError"]
        (content,) = self.result["content"]
        self.text = content["text"]

    @property
    def attempt(self) -> int:
        """The number that a claim returned."""
        return int(self.text.partition("(attempt ")[2].partition(")")[0])


class Inside:
    """The server without a transport, for a worktree."""

    def __init__(self, cwd: Path, role: str = "worker", **how: object) -> None:
        self.session = LocalSession(str(cwd), role, **how)
        self.protocol = McpProtocol(self.session)

    def rpc(self, method: str, **params: object) -> dict:
        return self.protocol.respond(request(method, **params))

    def tool(self, name: str, **given: object) -> ToolResult:
        return ToolResult(self.rpc("tools/call", name=name, arguments=given))

    def refused(self, name: str, **given: object) -> str:
        found = self.tool(name, **given)
        assert found.failed, found.text
        return found.text

    def said(self, name: str, **given: object) -> str:
        found = self.tool(name, **given)
        assert not found.failed, found.text
        return found.text

    def close(self) -> None:
        self.session.close()


class Client:
    """The server as a process of its own, whose client is this one."""

    def __init__(
        self, cwd: Path, *options: str, program: Sequence[str] = ("-m", "tugtool"), **env: str
    ) -> None:
        self._numbers = iter(range(1, 1_000_000))
        self.process = subprocess.Popen(
            [sys.executable, *program, "mcp", *options],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **env},
        )

    def send(self, message: object) -> None:
        """Send a message, or bytes as they are."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self) -> dict:
        """The next message of the server."""
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), (line, self.process.stderr.read())
        return json.loads(line)

    def rpc(self, method: str, **params: object) -> dict:
        self.send(request(method, next(self._numbers), **params))
        return self.read()

    def tool(self, name: str, **given: object) -> ToolResult:
        return ToolResult(self.rpc("tools/call", name=name, arguments=given))

    def end(self) -> tuple[int, str]:
        """Close standard input. Return the exit status, and what was written to standard error."""
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said.decode()
