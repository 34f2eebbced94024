"""Push to a remote and fetch from it: within a time limit, without questions, never by force."""

from __future__ import annotations

from typing import NamedTuple

from tugtool import errors
from tugtool.git import command as git
from tugtool.system import clock, command
from tugtool.system.command import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


#: Do not pack, prune, follow tags or look into submodules on the way.
_PLAINLY = (
    *("gc.auto=0", "maintenance.auto=false", "fetch.prune=false", "push.followTags=false"),
    "core.askPass=",
)
#: For commands that only look: none of the programs that the repository may name for a remote.
_HARMLESS = (
    *(
        "core.sshCommand=ssh -o BatchMode=yes",
        "core.gitProxy=",
        "credential.helper=",
        "core.hooksPath=/dev/null",
    ),
    *("protocol.ext.allow=never", "remote.origin.uploadpack=git-upload-pack"),
)
_KNOWN = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
_PUSH = ("push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no")
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no")
#: What git and ssh say, in lower case, and what it means; the first that fits counts.
_SAID = (
    ("gone", ("couldn't find remote ref",)),
    (
        "denied",
        (
            *("permission denied", "authentication failed", "could not read username"),
            *("could not read password", "terminal prompts disabled", "access denied"),
            *("returned error: 401", "returned error: 403", "host key verification failed"),
        ),
    ),
    (
        "unreachable",
        (
            *("could not resolve host", "could not resolve hostname", "name or service not known"),
            *("connection refused", "connection timed out", "operation timed out"),
            *("no route to host", "network is unreachable", "failed to connect"),
            *("unable to connect", "connection reset", "hung up unexpectedly"),
            *("early eof", "connection closed"),
        ),
    ),
    (
        "missing",
        (
            *("does not appear to be a git repository", "repository not found", "no such remote"),
            *("returned error: 404", "not a git repository", "does not exist"),
        ),
    ),
    ("unreachable", ("could not read from remote repository",)),
)
#: What git says in brackets of a branch that it did not push.
_REJECTED = (
    ("behind", ("non-fast-forward", "fetch first", "stale info", "needs force")),
    ("hook", ("hook declined",)),
)
_MOST_SAID = 300
#: The status of a git that was killed because its time was up.
TIMED_OUT = 124
#: The status of one that was stopped because it asked for a password at the terminal.
ASKED = 125
#: No program asks for a password, at the terminal or in a window.
_NO_QUESTIONS = {
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
}
_BATCH = "-o BatchMode=yes"
_MOST_BYTES = 1 << 20
#: How long a git whose time is up may take to end.
_GRACE_SECONDS = 0.5


class Refusal(NamedTuple):
    """Why a remote did not do what git asked for: one word, and git's words."""

    kind: str
    said: str


def push(top: str, remote: str, specs: Mapping[str, str], seconds: float) -> dict[str, Refusal]:
    """Push commits to refs (ref -> commit). Return the refs that the remote did not take."""
    words = (*_PUSH, remote, *(f"{commit}:{ref}" for ref, commit in specs.items()))
    done = _exchanged(words, top, seconds)
    told = dict(_rows(done.out))
    refused = {ref: _rejection(told[ref], done) for ref in specs if _is_rejected(told.get(ref))}
    if done.status and not refused:
        # Git did not get so far as to ask for each.
        return dict.fromkeys(specs, _refusal(done, seconds, hook="pre-push"))
    return refused


def _exchanged(words: Sequence[str], top: str, seconds: float) -> git.Done:
    """Run git within the time limit, in a group of its own, which ends as a whole."""
    settings, known = (_HARMLESS, _KNOWN) if git.is_looking() else ((), {})
    argv = git.words(*words, cwd=top, settings=(*_PLAINLY, *settings))
    env = {**git.environment(), **_NO_QUESTIONS, **known}
    env |= {} if settings else _quiet_ssh(top, env)
    streams = Streams.keep(head=_MOST_BYTES, tail=0)
    try:
        child = command.start(argv, cwd=top, env=env, streams=streams)
    except errors.CannotRun as error:
        raise errors.GitUnusable(error.message) from error
    end, asked = clock.ticks() + seconds, False
    with child:
        while not child.wait(max(0.0, end - clock.ticks())):
            # Outside the terminal's group, a password prompt suspends it.
            asked = child.suspended_by is not None
            child.timed_out = clock.ticks() >= end
            if asked or child.timed_out:
                child.stop(_GRACE_SECONDS)
                break
    status = ASKED if asked else TIMED_OUT if child.timed_out else child.status or 0
    return git.Done(status, child.out.text(), child.err.text())


def _quiet_ssh(top: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that makes ssh ask nothing; none for another program of the person's."""
    named = env.get("GIT_SSH_COMMAND")
    named = named or git.attempt("config", "--get", "core.sshCommand", cwd=top).out.strip()
    named = named or ("" if "GIT_SSH" in env else "ssh")
    program = named.split(" ")[0].rpartition("/")[2]
    return {"GIT_SSH_COMMAND": f"{named} {_BATCH}"} if program == "ssh" else {}


def _rows(out: str) -> Iterable[tuple[str, tuple[str, str]]]:
    """Return ref -> (flag, summary) from the lines of `push --porcelain`."""
    for line in out.split("\n"):
        flag, tab, rest = line.partition("\t")
        names, _, summary = rest.partition("\t")
        if tab and len(flag) == 1:
            yield names.partition(":")[2], (flag, summary)


def _is_rejected(row: tuple[str, str] | None) -> bool:
    return row is not None and row[0] == "!"


def _rejection(row: tuple[str, str], done: git.Done) -> Refusal:
    summary = row[1]
    kinds = (kind for kind, marks in _REJECTED if any(mark in summary for mark in marks))
    kind = next(kinds, "refused")
    lines = [line for line in done.said.split("\n") if line.startswith("remote:")]
    said = " ".join(line.removeprefix("remote:").strip() for line in lines).strip()
    return Refusal(kind, _short(f"{summary}: {said}" if said and kind != "behind" else summary))


def fetch(top: str, remote: str, specs: Sequence[str], seconds: float) -> Refusal | None:
    """Fetch refs (`+theirs:ours`). Return why not, or None."""
    words = (*_FETCH, "--refmap=", remote, *specs)
    done = _exchanged(words, top, seconds)
    return _refusal(done, seconds) if done.status else None


def _refusal(done: git.Done, seconds: float, hook: str = "") -> Refusal:
    low = done.said.lower()
    if done.status == TIMED_OUT:
        return Refusal("timeout", f"no answer within {seconds:g} s")
    if done.status == ASKED:
        return Refusal("denied", "it asks for a password")
    found = (kind for kind, marks in _SAID if any(mark in low for mark in marks))
    kind = next(found, "hook" if hook else "refused")
    said = f"the {hook} hook of this repository fails: " if kind == "hook" else ""
    return Refusal(kind, _short(said + _essence(done.said)))


def _essence(said: str) -> str:
    """Return git's own lines, or all of them."""
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    marks = ("fatal: ", "error: ", "ssh: ", "remote: ")
    own = [line for line in lines if line.startswith(marks) and "failed to push some" not in line]
    return "; ".join(line.partition(": ")[2] for line in own) or " ".join(lines)


def _short(said: str) -> str:
    words = " ".join(_masked(word) for word in said.split())
    return words if len(words) <= _MOST_SAID else f"{words[: _MOST_SAID - 1]}…"


def _masked(word: str) -> str:
    """Return a word without the credentials of an address in it."""
    scheme, mark, rest = word.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}" if mark else word


def tracking(remote: str, branch: str) -> str:
    """Return the ref that has a remote's branch here."""
    return f"refs/remotes/{remote}/{branch}"


def branch_spec(remote: str, branch: str) -> str:
    """Return the refspec that fetches one branch; a branch that was rewritten is taken as it is."""
    return f"+refs/heads/{branch}:{tracking(remote, branch)}"
