"""A worker's whole life with the client of the MCP SDK.

Its arguments are the mode, the worktree, and for HTTP the address and the token.

It checks each answer, is refused once, loses one claim, and finishes the plan.
"""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

TASK = {"kind": "task", "ordinal": 0, "status": "completed"}


class Worker:
    """Calls tools, and counts what happened."""

    def __init__(self, client: Client, worktree: Path, *, commits: bool) -> None:
        self.client, self.worktree, self.commits = client, worktree, commits
        self.steps = self.refusals = self.stops = 0
        self.progress: list[float] = []

    async def tool(self, name: str, **given: Any) -> str:
        result = await self.client.call_tool(name, given)
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        assert result.structured_content is None
        self.refusals += bool(result.is_error) and "stop: true" not in content.text
        self.stops += "stop: true" in content.text
        return content.text

    async def look_around(self) -> None:
        """Everything that a client can list, and an error of the protocol."""
        tools = (await self.client.list_tools()).tools
        assert [each.name for each in tools][:3] == ["status", "show", "claim"]
        assert all(each.annotations and each.title for each in tools)
        assert (await self.client.list_resource_templates()).resource_templates
        (first, *_) = (await self.client.list_resources()).resources
        read = await self.client.read_resource(str(first.uri))
        assert read.contents[0].text
        names = [each.name for each in (await self.client.list_prompts()).prompts]
        assert names == ["work", "morning"]
        prompt = await self.client.get_prompt("work", {"plan": "work"})
        assert "claim" in prompt.messages[0].content.text
        code = 0
        try:
            await self.client.read_resource("tug://nothing")
        except MCPError as error:
            code = error.error.code
        assert code in (-32002, -32602)

    async def claim(self) -> tuple[str, int]:
        text = await self.tool("claim")
        if text.startswith("claimed: false"):
            return "", 0
        attempt = int(text.partition("(attempt ")[2].partition(")")[0])
        return text.split()[1], attempt

    async def work(self) -> None:
        """Until every step is completed; the first claim is lost, the first completion refused."""
        lost, old = await self.claim()
        if self.commits:
            # Another client in the same worktree.
            command = [sys.executable, "-m", "tugtool", "claim", "work"]
            await anyio.run_process(command, cwd=self.worktree, env=_environment())
        step, attempt = await self.claim()
        assert step == lost
        assert "E060" in await self.tool("update", step=step, attempt=old, entries=[TASK])
        assert "E051" in await self.complete(step, attempt)
        while step:
            (self.worktree / step).write_text("x\n")
            if self.commits:
                seen = self.progress.append
                result = await self.client.call_tool(
                    "verify",
                    {"step": step, "attempt": attempt},
                    progress_callback=lambda done, total, words, seen=seen: _told(seen, done),
                )
                assert not result.is_error
            text = await self.tool("update", step=step, attempt=attempt, complete_remaining=True)
            assert "0 open" in text
            await self.tool("note", step=step, attempt=attempt, summary="it was easy")
            text = await self.complete(step, attempt)
            assert text.startswith(f"completed {step}"), text
            self.steps += 1
            step, attempt = await self.claim()

    async def complete(self, step: str, attempt: int) -> str:
        how = {"message": f"feat: {step}"} if self.commits else {"summary": "only looked"}
        return await self.tool("complete", step=step, attempt=attempt, **how)


async def _told(seen: Any, done: float) -> None:
    seen(done)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _stdio(worktree: str) -> StdioServerParameters:
    how: Any = {"cwd": worktree, "env": _environment()}
    return StdioServerParameters(command=sys.executable, args=["-m", "tugtool", "mcp"], **how)


async def main(mode: str, worktree: str, *http: str) -> None:
    server: Any = _stdio(worktree)
    if http:
        url, token = http
        headers = {"Authorization": f"Bearer {token}"}
        server = streamable_http_client(url, http_client=httpx2.AsyncClient(headers=headers))
    async with Client(server, mode=mode) as client:
        worker = Worker(client, Path(worktree), commits=not http)
        await worker.look_around()
        await worker.work()
        counts = f"{worker.steps} steps, {worker.refusals} refusal, {worker.stops} stop"
        print(f"{client.protocol_version}: {counts}")


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
