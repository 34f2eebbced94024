"""JSON-RPC and the methods of MCP, in both of its eras; it knows no transport.

Until 2025-11-25 a client begins with `initialize`. Since 2026-07-28 it does not: every request
carries the version in `_meta`, and every result says that it is complete.
"""

from __future__ import annotations

from tugtool import __version__
from tugtool.system import os, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from tugtool.server.mcp.session import ToolSession

    Message = dict[str, Any]
    Params = Mapping[str, Any]


HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)
_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY, CAPABILITIES_KEY = f"{_PREFIX}protocolVersion", f"{_PREFIX}clientCapabilities"
_SERVER_KEY = f"{_PREFIX}serverInfo"

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR, UNSUPPORTED_VERSION = -32602, -32603, -32022
NO_RESOURCE = -32002

#: How long a client may keep a list: tools and prompts stay while the server runs.
_KEEP_MILLISECONDS = {"tools/list": 300_000, "prompts/list": 300_000, "server/discover": 300_000}
#: Their results may be kept, so they have to say for how long.
_CACHEABLE = (
    *("server/discover", "tools/list", "prompts/list", "resources/list"),
    *("resources/templates/list", "resources/read"),
)
SERVER = {"name": "tugcode", "title": "Tugtool", "version": __version__}
_CAPABILITIES: Message = {"tools": {}, "resources": {}, "prompts": {}}
#: The methods that read or write the record; all others are answered at once.
LONG_METHODS = ("tools/call", "resources/list", "resources/read", "prompts/get")


try:
    # As in `system.text`: `json` would double the time to the first answer. Every byte of the
    # list of tools costs every session, so there are no blanks.
    from _json import encode_basestring_ascii, make_encoder

    _pieces: Callable[[object, int], Iterable[str]] = make_encoder(
        None, repr, encode_basestring_ascii, None, ":", ",", False, False, True
    )
except ImportError:
    from json import JSONEncoder

    _pieces = JSONEncoder(separators=(",", ":")).iterencode  # type: ignore[assignment]


def encoded(message: object) -> bytes:
    """A message as one line of JSON."""
    return "".join(_pieces(message, 0)).encode() + b"\n"


class ProtocolError(Exception):
    """A message that is not as the protocol wants it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


def definitions() -> Message:
    """The instructions and the tools, as the package has them."""
    path = os.path.join(os.path.dirname(__file__), "tools.json")
    with open(path, encoding="utf-8") as file:
        found = text.decode(file.read())
    assert isinstance(found, dict)
    return found


def decoded(line: bytes) -> object:
    """The value of a message; raises if it is not JSON."""
    try:
        return text.decode(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        place = getattr(error, "pos", None)
        where = f", from character {place + 1} on" if place is not None else ""
        raise ProtocolError(PARSE_ERROR, f"the message is not JSON{where}") from error


def error_answer(error: ProtocolError, number: object = None) -> Message:
    """The answer to a message that is refused as such."""
    told: Message = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = error.data
    return {"jsonrpc": "2.0", "id": number if is_id(number) else None, "error": told}


def is_id(number: object) -> bool:
    """True for what may name a request."""
    return isinstance(number, str | int) and not isinstance(number, bool)


def is_request(message: object) -> bool:
    """True if the message wants an answer; False for notifications and for answers."""
    if not isinstance(message, dict):
        return True
    if "method" not in message and ("result" in message or "error" in message):
        return False
    return "id" in message or not _is_notification(message)


def _is_notification(message: Message) -> bool:
    return message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str)


def check_request(message: object) -> Message:
    """The message, if it is a request; otherwise this raises."""
    if not isinstance(message, dict):
        raise ProtocolError(INVALID_REQUEST, "a message is one JSON object")
    if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        raise ProtocolError(INVALID_REQUEST, 'a request has "jsonrpc": "2.0" and a method')
    if not is_id(message.get("id")):
        raise ProtocolError(INVALID_REQUEST, "the id of a request is a text or a whole number")
    params = message.get("params")
    if params is not None and not isinstance(params, dict):
        raise ProtocolError(INVALID_PARAMS, "params is an object")
    return message


def meta(message: Mapping[str, Any]) -> Params:
    """The `_meta` of a message; empty if it has none."""
    params = message.get("params")
    found = params.get("_meta") if isinstance(params, dict) else None
    return found if isinstance(found, dict) else {}


def is_modern(message: Mapping[str, Any]) -> bool:
    """True if the message carries its own version; raises if that is not ours."""
    told = meta(message)
    if VERSION_KEY not in told:
        return False
    version = told[VERSION_KEY]
    if not isinstance(version, str) or not isinstance(told.get(CAPABILITIES_KEY), dict):
        names = f"{VERSION_KEY} (a text) and {CAPABILITIES_KEY} (an object)"
        raise ProtocolError(INVALID_PARAMS, f"_meta needs {names}")
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": version}
        raise ProtocolError(UNSUPPORTED_VERSION, "unsupported protocol version", data)
    return True


class McpProtocol:
    """Answers messages for one caller, whose role and repository the session has."""

    def __init__(self, session: ToolSession) -> None:
        self.session = session
        self._defined: Message | None = None

    @property
    def defined(self) -> Message:
        """The instructions, and the tools of the caller's role."""
        if self._defined is None:
            found = definitions()
            names = self.session.tools
            tools = [each for each in found["tools"] if each["name"] in names]
            self._defined = {**found, "tools": tools}
        return self._defined

    def respond(self, message: object) -> Message | None:
        """Return the answer to a message; None if it wants none."""
        if not is_request(message):
            return None
        number = message.get("id") if isinstance(message, dict) else None
        modern = False
        try:
            request = check_request(message)
            modern = is_modern(request)
            method = request["method"]
            if method not in _METHODS:
                raise ProtocolError(UNKNOWN_METHOD, f"there is no method {method[:100]}")
            result = _METHODS[method](self, request.get("params") or {})
        except ProtocolError as error:
            if modern and error.code == NO_RESOURCE:
                error.code = INVALID_PARAMS
            return error_answer(error, number)
        if modern or method == "server/discover":
            result = _complete(method, result)
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def initialize(self, params: Params) -> Message:
        """Agree on a version with a client of the first era."""
        asked = params.get("protocolVersion")
        version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        about = {"capabilities": _CAPABILITIES, "serverInfo": SERVER}
        return {"protocolVersion": version, **about, "instructions": self.defined["instructions"]}

    def discover(self, _: Params) -> Message:
        """Say which versions there are."""
        about = {"capabilities": _CAPABILITIES, "instructions": self.defined["instructions"]}
        return {"supportedVersions": list(MODERN_VERSIONS), **about}

    def ping(self, _: Params) -> Message:
        """Say that the server runs."""
        return {}

    def list_tools(self, _: Params) -> Message:
        """The tools of the caller's role."""
        tools = self.defined["tools"]
        return {"tools": tools if self.session.commits else [_elsewhere(each) for each in tools]}

    def call_tool(self, params: Params) -> Message:
        """Run a tool; a refusal is a result too."""
        from tugtool.server.mcp import tools

        name, given = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(given, dict | None):
            raise ProtocolError(INVALID_PARAMS, "tools/call needs a name, and arguments as object")
        return tools.run_tool(self.session, self.defined["tools"], name, given or {})

    def list_resources(self, _: Params) -> Message:
        """The status, and each plan."""
        from tugtool.server.mcp import resources

        return {"resources": resources.listed(self.session)}

    def list_templates(self, _: Params) -> Message:
        """The forms of the other addresses."""
        from tugtool.server.mcp import resources

        return {"resourceTemplates": resources.TEMPLATES}

    def read_resource(self, params: Params) -> Message:
        """The text of one resource."""
        from tugtool.server.mcp import resources

        address = params.get("uri")
        if not isinstance(address, str):
            raise ProtocolError(INVALID_PARAMS, "resources/read needs a uri")
        return {"contents": [resources.read_resource(self.session, address)]}

    def list_prompts(self, _: Params) -> Message:
        """The two prompts."""
        from tugtool.server.mcp import resources

        return {"prompts": resources.PROMPTS}

    def get_prompt(self, params: Params) -> Message:
        """The text of a prompt."""
        from tugtool.server.mcp import resources

        name, given = params.get("name"), params.get("arguments") or {}
        texts = isinstance(given, dict) and all(isinstance(e, str | None) for e in given.values())
        if not isinstance(name, str) or not texts:
            problem = "prompts/get needs a name, and arguments as object of texts"
            raise ProtocolError(INVALID_PARAMS, problem)
        return resources.prompt(self.session, name, given)


#: What `complete` is for a caller whose worktree is on another machine.
_WITH_COMMIT = (
    "Say that your step is done. commit: the commit with the work, which the server's repository "
    "must have by now, on a branch of the plan; if there was nothing to commit, summary says so. "
    "Refused while items are open; the refusal lists them."
)


def _elsewhere(tool: Message) -> Message:
    """The definition of a tool for a caller for whom the server does not commit."""
    if tool["name"] != "complete":
        return tool
    schema = tool["inputSchema"]
    known = {name: each for name, each in schema["properties"].items() if name != "message"}
    made = {**tool, "description": _WITH_COMMIT}
    made["inputSchema"] = {**schema, "properties": known}
    return made


def _complete(method: str, result: Message) -> Message:
    """The result as the second era writes it."""
    if method in _CACHEABLE:
        kept = {"ttlMs": _KEEP_MILLISECONDS.get(method, 0), "cacheScope": "private"}
        result = {**result, **kept}
    return {**result, "resultType": "complete", "_meta": {_SERVER_KEY: SERVER}}


_METHODS: dict[str, Callable[[McpProtocol, Params], Message]] = {
    "initialize": McpProtocol.initialize,
    "server/discover": McpProtocol.discover,
    "ping": McpProtocol.ping,
    "tools/list": McpProtocol.list_tools,
    "tools/call": McpProtocol.call_tool,
    "resources/list": McpProtocol.list_resources,
    "resources/templates/list": McpProtocol.list_templates,
    "resources/read": McpProtocol.read_resource,
    "prompts/list": McpProtocol.list_prompts,
    "prompts/get": McpProtocol.get_prompt,
}
