"""The OpenAPI 3.1 document, from the table of commands and the schemas of their answers."""

from __future__ import annotations

import functools
import json

import tugtool
from tugtool.cli.parse import FAMILIES, Argument, Option
from tugtool.server import deck, routes
from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.server.routes import Route

    Json = dict[str, Any]


_SCHEMAS = os.path.join(os.path.dirname(tugtool.__file__), "schemas")
_TYPES: Json = {
    "number": {"type": "integer", "minimum": 1},
    "seconds": {"type": "number", "exclusiveMinimum": 0},
}
_ENTRY = {
    "type": "object",
    "required": ["kind", "ordinal", "status"],
    "properties": {
        "kind": {"enum": ["task", "test", "checkpoint"]},
        "ordinal": {"type": "integer", "minimum": 0},
        "status": {"enum": ["open", "in_progress", "completed", "deferred"]},
        "reason": {"type": "string"},
        "step": {"type": "string"},
    },
}
_PROBLEMS = {
    "400": "the request makes no sense (exit status 2)",
    "401": "no token, or a wrong one (E100)",
    "403": "the role is too small, or a foreign page asks (E101, E102)",
    "404": "no such plan, step or path",
    "409": "refused, and nothing was changed (exit status 1); or the claim is not yours any more "
    "(exit status 4)",
    "422": "a field that the command does not have",
    "429": "too many requests (E104)",
    "503": "the database is busy or away",
}


@functools.cache
def document() -> bytes:
    """The document as JSON."""
    return json.dumps(described(), separators=(",", ":")).encode() + b"\n"


def described() -> Json:
    """The document."""
    components: Json = {}
    components["envelope"] = _loaded("envelope", components)
    paths: Json = {}
    for route in routes.ROUTES.values():
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components)
    for path, each in deck.PATHS.items():
        paths[path] = {"get": _deck_operation(path, each)}
    bearer = {"type": "http", "scheme": "bearer", "description": "tugcode serve token add"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tugtool",
            "version": tugtool.__version__,
            "description": "The commands of tugcode over HTTP; each answer is that of --json.",
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"bearer": bearer}},
    }


def _operation(route: Route, components: Json) -> Json:
    command = routes.command_of(route)
    summary = FAMILIES[route.command][1]
    told = f"{command.description}\n\nRole: {route.role}; group: {route.group}.".strip()
    operation: Json = {
        "operationId": _name(route).replace("-", "_"),
        "summary": summary,
        "description": told,
        "tags": [route.group],
        "responses": _responses(_answer(route, components)),
    }
    properties, required = _request(route)
    if route.method == "GET":
        operation["parameters"] = [
            {"name": name, "in": "query", "required": name in required, "schema": value}
            for name, value in properties.items()
        ]
        return operation
    body = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        body["required"] = required
    operation["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": body}},
    }
    operation["parameters"] = [
        {
            "name": "If-Seq",
            "in": "header",
            "schema": {"type": "integer"},
            "description": "refuse if the plan or step has changed since this event (E106)",
        },
        {
            "name": "Idempotency-Key",
            "in": "header",
            "schema": {"type": "string", "minLength": 1, "maxLength": 128},
            "description": "the same request with this key again gets the same answer, for a day",
        },
    ]
    return operation


def _name(route: Route) -> str:
    name = route.command.replace(" ", "-")
    return f"{name}-verdict" if route.command == "state review" and route.method == "POST" else name


def _request(route: Route) -> tuple[Json, list[str]]:
    properties: Json = {}
    required: list[str] = []
    alone = [each.name for each in routes.command_of(route).arguments[:2]] == ["plan", "step"]
    for name, each in routes.fields(route).items():
        properties[name] = _value(name, each)
        # Without a plan, a step is one of the only active plan.
        if isinstance(each, Argument) and not each.optional and not (alone and name == "plan"):
            required.append(name)
    return properties, required


def _value(name: str, each: Option | Argument) -> Json:
    if name == routes.ENTRIES:
        return {"type": "array", "items": _ENTRY, "description": each.help}
    one: Json = dict(_TYPES.get(each.kind, {"type": "string"}))
    if each.choices:
        one = {"enum": list(each.choices)}
    if isinstance(each, Argument):
        several, words = each.many, 1
    else:
        several, words = each.repeat, len(each.metavar.split())
        if not words:
            one = {"type": "boolean"}
    if words == 2:
        one = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}
    if several:
        one = {"type": "array", "items": one}
    return {**one, "description": each.help}


def _answer(route: Route, components: Json) -> Json:
    if route.command == "state export":
        lines = {"type": "string", "description": "one JSON object in each line"}
        return {"application/jsonl": {"schema": lines}}
    name = route.command.replace(" ", "-")
    if name not in components:
        components[name] = _loaded(name, components)
    data = {"type": "object", "properties": {"data": _ref(name)}}
    return {"application/json": {"schema": {"allOf": [_ref("envelope"), data]}}}


def _deck_operation(path: str, asked: deck.DeckPath) -> Json:
    parameters = [
        {
            "name": name,
            "in": "query",
            "required": name in ("id", "hash", "call"),
            "schema": {"type": "string"},
        }
        for name in asked.fields
    ]
    name = path.removeprefix(routes.API).replace("/", "_")
    content = {"application/json": {"schema": _ref("envelope")}}
    return {
        "operationId": name,
        "summary": asked.summary,
        "description": f"Role: {asked.role}.",
        "tags": ["deck"],
        "parameters": parameters,
        "responses": _responses(content),
    }


def _responses(content: Json) -> Json:
    refused = {"application/json": {"schema": _ref("envelope")}}
    told = {status: {"description": said, "content": refused} for status, said in _PROBLEMS.items()}
    exit_status = {"schema": {"type": "integer"}, "description": "the command's exit status"}
    done = {
        "description": "the answer of the command",
        "headers": {"Tug-Exit-Status": exit_status},
        "content": content,
    }
    return {"200": done, **told}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _loaded(name: str, components: Json) -> Json:
    """The schema of an answer; its definitions become components too."""
    with open(os.path.join(_SCHEMAS, f"{name}.json"), encoding="utf-8") as file:
        text = file.read().replace('"#/$defs/', f'"#/components/schemas/{name}.')
    schema: Json = json.loads(text)
    schema.pop("$schema", None)
    for inner, value in schema.pop("$defs", {}).items():
        components[f"{name}.{inner}"] = value
    return schema
