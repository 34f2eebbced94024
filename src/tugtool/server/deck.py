"""The page: its files, and the paths that only the page needs.

Its files lie in `page/` beside this module and are read once, when the server starts. A request
names a file by its path in that table, never a path of the disk. The browser gets all modules of
the page as one: thirty requests would take longer than the rest of the first drawing.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import hashlib
import re
from typing import NamedTuple

from tugtool import errors, state
from tugtool.cli import output
from tugtool.errors.server import RoleTooSmall
from tugtool.server.routes import API, HttpRefusal
from tugtool.server.served import Rendered
from tugtool.state import record, views
from tugtool.system import clock, os, text
from tugtool.workflow import review, timeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tugtool.server.served import ServedWorkspace
    from tugtool.server.tokens import Caller
    from tugtool.server.work import Service

    Values = Mapping[str, object]
    Answering = Callable[[ServedWorkspace, Values], Mapping[str, object]]


FILES = os.path.join(os.path.dirname(__file__), "page")
#: Kinds of files that are served; others in the directory are not.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX = "/index.html"
#: All modules as one, and the module that begins.
JOINED, _FIRST = "/deck.js", "/app.js"
#: The forms of imports and exports in the modules, ours and the vendored ones.
_IMPORT = re.compile(r'^import (?:(\w+)|\{ ([^}]+) \}) from "\.(/[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|class|function) (\w+))", re.MULTILINE)
_EXPORTS = re.compile(r"export ?\{([^}]+)\};")
_DEFAULT = "export default "
#: Views of the page: each is the same file, which reads the path itself.
VIEWS = ("/", "/review", "/workers", "/log", "/about")
PLAN_VIEWS = "/p/"
#: Shown if the package has no page.
_PLAIN = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Tugtool</title>
<p>This is the server of Tugtool. Its commands are described at /api/v1/openapi.json.</p></html>
"""


class PageFile(NamedTuple):
    """A file of the page."""

    kind: str
    body: bytes
    #: The hash of its content.
    tag: str


class Page:
    """The files of the page by their paths, and the paths of its views."""

    def __init__(self, directory: str = FILES) -> None:
        found = {_INDEX: _PLAIN}
        for place, _, names in os.walk(directory):
            for name in names:
                if os.path.splitext(name)[1] in _TYPES:
                    path = os.path.join(place, name)
                    with open(path, "rb") as file:
                        found[path.removeprefix(directory)] = file.read()
        if _FIRST in found:
            found |= joined(found)
        self._files = {path: _page_file(path, body) for path, body in found.items()}

    def find(self, path: str) -> PageFile | None:
        """Return the file at a path, or None."""
        if path in VIEWS or path.startswith(PLAN_VIEWS):
            return self._files[_INDEX]
        return self._files.get(path)

    def __contains__(self, path: object) -> bool:
        """True if the path is one of the page's, which hold no data."""
        return self.find(str(path)) is not None


def _page_file(name: str, body: bytes) -> PageFile:
    tag = hashlib.sha256(body).hexdigest()[:32]
    return PageFile(_TYPES[os.path.splitext(name)[1]], body, tag)


class _Module(NamedTuple):
    """A module of the page as the body of a function."""

    body: str
    #: Name outside -> name inside.
    exports: dict[str, str]
    needs: list[str]


def _module(text: str) -> _Module:
    exports = {name: name for name in _EXPORT.findall(text)}
    for names in _EXPORTS.findall(text):
        for inside, _, outside in (each.strip().partition(" as ") for each in names.split(",")):
            exports[outside or inside] = inside
    if _DEFAULT in text:
        exports["default"] = "itself"
    needs = [path for _, _, path in _IMPORT.findall(text)]

    def taken(found: re.Match[str]) -> str:
        whole, some, path = found.groups()
        names = some.replace(" as ", ": ") if some else f"default: {whole}"
        return f'const {{ {names} }} = all["{path}"];\n'

    body = _EXPORT.sub("", _EXPORTS.sub("", _IMPORT.sub(taken, text)))
    return _Module(body.replace(_DEFAULT, "const itself = "), exports, needs)


def joined(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """All modules as one, each after those that it needs; and each one's names from there."""
    modules: dict[str, _Module] = {}

    def add(path: str) -> None:
        if path not in modules:
            module = _module(files[path].decode())
            for each in module.needs:
                add(each)
            modules[path] = module

    add(_FIRST)
    parts = ["export const all = {};\n"]
    for path, (body, exports, _) in modules.items():
        names = ", ".join(f"{outside}: {inside}" for outside, inside in exports.items())
        parts.append(f'all["{path}"] = (() => {{\n{body}\nreturn {{ {names} }};\n}})();\n')
    found = {JOINED: "".join(parts).encode()}
    # By its own path a module is the same one, not a second.
    for path in (each for each in modules if each.endswith(".js")):
        names = ", ".join(modules[path].exports)
        said = f'import {{ all }} from "{JOINED}";\nexport const {{ {names} }} = all["{path}"];\n'
        found[path] = said.encode()
    return found


@functools.cache
def packed(file: PageFile) -> bytes:
    """The file compressed, once, when it is first asked for."""
    return gzip.compress(file.body, 9, mtime=0)


def whoami(space: ServedWorkspace, _: Values) -> Mapping[str, object]:
    """The name and role of the token."""
    caller = space.caller
    return {
        "name": caller.name or space.person(),
        "role": caller.role,
        "plan": caller.plan,
        "expires_at": caller.expires_at,
        "acts_as": space.owner,
    }


def plan_text(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The text that was agreed, or an earlier one."""
    plan = space.plan(_text(values, "plan"))
    number = _number(values, "revision")
    agreed = state.agreed_texts(space.store, plan, number)
    if number is None:
        number = len(agreed["revisions"])
        agreed = state.agreed_texts(space.store, plan, number)
    (row,) = (each for each in agreed["revisions"] if each["revision"] == number)
    from tugtool.server import words  # The server starts without it.

    agreed_text = agreed["text"] or ""
    return {"plan_path": plan, **row, "text": agreed_text, "marks": words.marks(agreed_text)}


def plan_revisions(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The agreed texts, without the texts themselves."""
    return dict(state.agreed_texts(space.store, space.plan(_text(values, "plan"))))


def plan_attempts(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """Every attempt of a plan, with its roles."""
    return timeline.attempts(space, space.plan(_text(values, "plan")))


def events(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The last events of a plan or of all, in words."""
    name, limit = _text(values, "plan"), _number(values, "limit")
    return timeline.events(
        space,
        space.plan_or_all(name),
        step=_text(values, "step"),
        kinds=(_text(values, "kind") or "").split(","),
        limit=200 if limit is None else max(1, limit),
        before=_number(values, "before"),
        quiet=_text(values, "quiet") == "true",
    )


def artifact(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """A note with its whole text."""
    name, number = _text(values, "plan"), _needed(values, "id")
    whole = name is None and space.caller.plan is None and space.store.exists()
    plans = record.plans(space.store) if whole else [space.plan(name)]
    for plan in plans:
        for step in views.show(space.store, plan, full=True)["steps"]:
            for each in (a for part in (step, *step["substeps"]) for a in part["artifacts"]):
                if str(each["artifact_id"]) == number:
                    return {"plan_path": plan, "step_anchor": step["anchor"], **each}
    raise errors.InvalidEntry(f"the record has no note {number[:20]}", hint="tugcode show --json")


def git_commit(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The change of a commit that the record names."""
    if space.caller.plan is not None:
        role = f"{space.caller.role} of {space.caller.plan}"
        raise RoleTooSmall("git commit", role=role, needs="a token for all plans")
    return review.recorded_change(space, _needed(values, "hash"))


def transcript_calls(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The calls of agents for a step."""
    plan = space.plan(_text(values, "plan"))
    return timeline.agent_calls(space, plan, _text(values, "step") or "")


def transcript_part(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The input and output of one call, from an offset on."""
    return timeline.part(
        space,
        space.plan(_text(values, "plan")),
        _needed(values, "step"),
        attempt=_number(values, "attempt"),
        number=_number(values, "call") or 0,
        file=_text(values, "file") or "",
        at=_number(values, "offset") or 0,
    )


def signs(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The signs, words and actions of the page."""
    from tugtool.server import words  # It loads the pictures of the terminal.

    return words.words(space, values)


def since(space: ServedWorkspace, values: Values) -> Mapping[str, object]:
    """The numbers of what happened after an event."""
    from tugtool.server import words

    return words.since(space, values)


class DeckPath(NamedTuple):
    """A path that only the page needs: its function, the fields that it takes, who may ask."""

    answer: Answering
    fields: tuple[str, ...]
    summary: str
    role: str = "viewer"


_CALL = ("plan", "step", "attempt", "call", "file", "offset", "wait")
PATHS: dict[str, DeckPath] = {
    f"{API}whoami": DeckPath(whoami, (), "the name and role of the token"),
    f"{API}plan/text": DeckPath(plan_text, ("plan", "revision"), "an agreed text of a plan"),
    f"{API}plan/revisions": DeckPath(plan_revisions, ("plan",), "the agreed texts, as a list"),
    f"{API}plan/attempts": DeckPath(
        plan_attempts, ("plan",), "every attempt, with the roles that worked in it"
    ),
    f"{API}events": DeckPath(
        *(events, ("plan", "step", "kind", "limit", "before", "quiet")),
        "the last events, each with its sentence",
    ),
    f"{API}artifact": DeckPath(artifact, ("plan", "id"), "a note with its whole text"),
    f"{API}git/commit": DeckPath(
        git_commit, ("hash",), "the change of a commit that the record names"
    ),
    f"{API}words": DeckPath(signs, (), "the signs, words and actions of the page"),
    f"{API}since": DeckPath(since, ("epoch", "seq"), "what happened after an event, in numbers"),
    # Agents may have printed what they should not have seen.
    f"{API}transcript/calls": DeckPath(
        transcript_calls, ("plan", "step"), "the calls of agents for a step", "operator"
    ),
    f"{API}transcript/part": DeckPath(
        transcript_part, _CALL, "what one call got and printed, from an offset on", "operator"
    ),
}
_LONGEST_WAIT_SECONDS, _LOOK_SECONDS = 25, 0.5


async def answer(service: Service, path: str, values: Values, caller: Caller) -> Rendered:
    """Answer one of these paths."""
    asked = PATHS[path]
    command = path.removeprefix(API).replace("/", " ")
    if not caller.may(asked.role):
        raise RoleTooSmall(command, role=caller.actual_role, needs=f"the role {asked.role}")
    for name in values:
        if name not in asked.fields:
            close = text.names(name, asked.fields)
            raise HttpRefusal(errors.Usage(f'there is no field "{name[:100]}"', close=close), 422)
    wait = min(_number(values, "wait") or 0, _LONGEST_WAIT_SECONDS)
    deadline, loop = clock.ticks() + wait, asyncio.get_running_loop()

    def run() -> Mapping[str, object]:
        return asked.answer(service.space(caller), values)

    while True:
        data = await loop.run_in_executor(service.others, run)
        if data.get("text") or data.get("ended", True) or clock.ticks() >= deadline:
            return Rendered(200, 0, output.envelope(command, 0, data, []).encode() + b"\n")
        await asyncio.sleep(_LOOK_SECONDS)


def _text(values: Values, name: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise errors.Usage(f"{name} was sent twice")
    return value


def _needed(values: Values, name: str) -> str:
    value = _text(values, name)
    if not value:
        raise errors.Usage(f"it needs {name}")
    return value


def _number(values: Values, name: str) -> int | None:
    given = _text(values, name)
    if given is not None and not (given.isascii() and given.isdecimal() and len(given) < 16):
        raise errors.Usage(f"{name} takes a number")
    return None if given is None else int(given)
