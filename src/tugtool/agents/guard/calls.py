"""Calls of git, tugcode, code hosts and sed."""

from __future__ import annotations

from tugtool.agents.guard import judge, programs, rules
from tugtool.agents.guard.judge import Refused, beyond, format_path
from tugtool.agents.guard.location import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.agents.guard.location import AgentLocation
    from tugtool.agents.guard.rules import Role


#: Options that take the next word.
_VALUED = ("--sort", "--format", "--prefix", "--path", "-t", "--depth", "-b", "--branch")
_SCOPES = (
    *("--global", "--local", "--system", "--worktree", "--show-origin", "--show-scope", "-z"),
    *("--null", "--includes", "--bool", "--int", "--path", "--name-only"),
)


def only_looks(name: str, rest: list[str]) -> bool:
    """True if the command with these arguments changes nothing."""
    before = _options(rest)
    if any(programs.means(word, never) for word in before for never in rules.GIT_NEVER):
        return False
    if name == "grep":
        return not any("O" in programs.flag_letters(word, "efABCmO") for word in before)
    if name in rules.GIT_LOOK:
        return True
    if name == "config":
        return _asks(before)
    if name == "format-patch":
        written = programs.values(before, "o", "--output-directory")
        return "--stdout" in before and not written
    if name in rules.GIT_LOOK_OPTIONS:
        return _lists(name, before)
    # Skip `-v`: the words after it decide.
    passed = ("-v", "--verbose") if name == "remote" else ()
    first = next((word for word in rest if word not in passed), "")
    return first in rules.GIT_LOOK_WITH.get(name, ())


def _options(words: list[str]) -> list[str]:
    """The words before a `--`."""
    return words[: words.index("--")] if "--" in words else words


def _asks(words: list[str]) -> bool:
    """True if the call reads a setting: it has an option that reads, or a name and no value."""
    others = [word for word in words if word not in _SCOPES]
    first = (*others, "")[0]
    if first in rules.GIT_LOOK_WITH["config"]:
        return True
    return len(others) == 1 and "." in first and first[0] not in "-" + UNKNOWN


def _lists(name: str, words: list[str]) -> bool:
    allowed = rules.GIT_LOOK_OPTIONS[name]
    given = [word.partition("=")[0] for word in words if word.startswith("-")]
    names = programs.plain(words, _VALUED)
    if name == "tag":
        # `-n5` is the option -n with a number of lines.
        given = ["-n" if each[2:].isdecimal() and each[:2] == "-n" else each for each in given]
    if any(each not in allowed for each in given):
        return False
    if name in ("branch", "tag"):
        # Without a listing option git would create the name.
        return not names or any(each in rules.GIT_LISTS for each in given)
    return name != "symbolic-ref" or len(names) == 1


def is_plain_exchange(name: str, rest: list[str]) -> bool:
    """True if a push or fetch names a remote and a branch, without force."""
    given = [word for word in rest if word.startswith("-")]
    names = [word for word in rest if not word.startswith("-")]
    if any(word not in rules.REMOTE_OPTIONS[name] for word in given):
        return False
    if any(mark in word for word in names for mark in ":+^*" + UNKNOWN):
        return False
    remote = not names or not names[0].startswith(("/", ".", "~"))
    return remote and (len(names) == 2 if name == "push" else len(names) <= 2)


def _is_apart(role: Role, name: str, rest: list[str], place: AgentLocation) -> bool:
    """True if git makes a repository below the temporary directories, from local files."""
    allowed = rules.APART_OPTIONS.get(name) if role.programs == rules.ANY else None
    given = [word.partition("=")[0] for word in rest if word.startswith("-")]
    names = programs.plain(rest, (*_VALUED, "--initial-branch"))
    if allowed is None or any(word not in allowed for word in given):
        return False
    if name == "init":
        return place.is_apart(place.names(names[0] if names else "."))
    local = len(names) == 2 and ":" not in names[0]
    return local and place.is_apart(place.names(names[1]))


#: Options of git itself that take the next word.
_GIT_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix")
_INSTEAD = {
    "commit": "leave your changes uncommitted: `tugcode commit` takes them once they are approved",
    "push": "leave it: the branch is pushed when the whole plan is done",
    "stash": "leave the changes where they are; the stash is shared by all worktrees",
    "clean": "make a copy with `git clone . /tmp/NAME` and work there",
    "clone": "clone this repository into a directory below /tmp",
    "worktree": "do not make or remove worktrees; `tugcode worktree list` shows them",
}
_UNDO = "to undo a change of yours, edit the file, or `git restore FILE`"
_ASK = "say in your answer what should be done"


def refuse_git(role: Role, words: list[str], place: AgentLocation) -> None:
    """Refuse a git command that the role may not run."""
    settings, name, rest = git_command(words)
    before = words[: len(words) - len(rest)]
    place = _git_place(role, before, place)
    if UNKNOWN in name:
        why = "the git command is only known when it runs"
        raise Refused(format_path(f"git {name}"), why=why, instead="write the command out")
    if name in role.git:
        if role.edits == rules.WORK:
            _refuse_elsewhere(role, before, place)
        _refuse_words(role, name, rest, place)
    elif name and not only_looks(name, rest) and not _is_apart(role, name, rest, place):
        other = _UNDO if "restore" in role.git else _ASK
        raise beyond(role, format_path(f"git {name}"), instead=_INSTEAD.get(name, other))
    for setting in settings:
        if not programs.is_among(setting.lower(), rules.GIT_SETTINGS):
            raise Refused(
                format_path(f"git -c {setting}"),
                why="with this setting git could do something else than its words say",
                instead="leave the setting out",
            )


def _git_place(role: Role, words: list[str], place: AgentLocation) -> AgentLocation:
    """The directory in which git runs, after its option -C."""
    place = place.copy()
    for directory in programs.values(words, "C", "", "c"):
        place.go(directory)
    given = programs.values(words, "", "--git-dir") + programs.values(words, "", "--work-tree")
    apart = [each for each in (".", *given) if place.is_apart(place.names(each))]
    if role.programs == rules.VIEWERS and apart:
        raise Refused(
            f"git in {format_path(place.names(apart[0])[0])}",
            why="the settings of a repository there could make git run anything",
            instead="look at the repository that you work in",
        )
    return place


def _refuse_elsewhere(role: Role, words: list[str], place: AgentLocation) -> None:
    """Refuse a git command that changes files, or an index, outside of the worktree."""
    given = programs.values(words, "", "--git-dir") + programs.values(words, "", "--work-tree")
    for path in (".", *given):
        if not place.is_apart(place.names(path)):
            judge.refuse_outside(role, path, place)


def git_command(words: list[str]) -> tuple[list[str], str, list[str]]:
    """The settings given to git, its command, and the command's arguments."""
    settings = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word == "-c":
            settings += words[at + 1 : at + 2]
        elif word.startswith(("--config-env", "--exec-path=")):
            settings.append(word)
        at += 2 if word in _GIT_VALUED else 1
    return settings, (words[at] if at < len(words) else ""), words[at + 1 :]


def _refuse_words(role: Role, name: str, rest: list[str], place: AgentLocation) -> None:
    if name in rules.REMOTE_OPTIONS:
        if not is_plain_exchange(name, rest):
            raise Refused(
                format_path(" ".join(("git", name, *rest))),
                why="it is not clear what it would overwrite, remove or run",
                instead="write `git push REMOTE BRANCH` or `git fetch REMOTE`, with `-u` at most; "
                "if that is not enough, answer ESCALATE",
            )
        return
    if name == "restore":
        _refuse_source(rest)
    for word in rest:
        if name in ("mv", "rm") and not word.startswith("-"):
            judge.refuse_removal(role, word, place)
        elif not word.startswith("-") and word != ".":
            judge.refuse_output(role, word, place)


def _refuse_source(rest: list[str]) -> None:
    for source in programs.values(rest, "s", "--source"):
        if source not in ("HEAD", "@"):
            raise Refused(
                format_path(f"git restore --source={source}"),
                why="it would undo what other steps have done",
                instead="look at the old text with `git show COMMIT:FILE`, and edit the file",
            )


def refuse_tugcode(role: Role, words: list[str]) -> None:
    """Refuse a tugcode command that the role may not run."""
    before = _options(words)
    if {"--help", "-h"} & set(before):
        return
    path = tugcode_command(before)
    options = [word.partition("=")[0] for word in before if word.startswith("-")]
    if path in ("", "help") or rules.may_run(role, path, options):
        return
    raise beyond(role, format_path(f"tugcode {path}"), instead=f"use {rules.wanted(role)}")


def tugcode_command(words: list[str]) -> str:
    """The tugcode command in the words, such as `state show`."""
    path = ""
    at = 0
    while at < len(words):
        word = words[at]
        if word.startswith("-"):
            at += 2 if word in ("-C", "--directory") else 1
            continue
        path = f"{path} {word}".strip()
        if path not in rules.GROUPS:
            break
        at += 1
    return f"state {path}" if path in rules.STATE_WORDS else path


def refuse_committing(words: list[str]) -> None:
    """Refuse a program that commits by itself, or changes the git directory of all worktrees."""
    name = programs.called(words).replace("_", "-")
    kinds = (
        (rules.COMMITTING, "it commits, tags or moves branches by itself", "edit the files"),
        (rules.HOOKING, "it changes the git directory, which all worktrees share", "leave it"),
    )
    for table, why, instead in kinds:
        verbs = table.get(name)
        said = programs.plain(words[1:])
        if verbs is None or (verbs and said[:1] not in [[verb] for verb in verbs]):
            continue
        # `npm version` alone only prints; with the option it does not commit.
        shows = verbs == ("version",) and (len(said) == 1 or "--no-git-tag-version" in words)
        if not shows:
            what = format_path(" ".join((name, *said[:1])))
            raise Refused(what, why=why, instead=f"{instead}, and say so in your answer")


def refuse_host(role: Role, name: str, words: list[str]) -> None:
    """Refuse a call of a code host's tool that the role may not make."""
    subject, verb = (*words, "", "")[:2]
    verbs = rules.HOST_TOOLS[name].get(subject, ())
    looks = subject not in ("auth", "api") and verb in rules.HOST_LOOK
    if (role.host or looks) and (verb in verbs or verbs == ("",)):
        return
    other = "open and look at pull requests, never merge them" if role.host else _ASK
    raise beyond(role, format_path(f"{name} {subject} {verb}"), instead=other)


#: The options of sed.
_LONG = (
    *("--quiet", "--silent", "--regexp-extended", "--separate", "--unbuffered", "--null-data"),
    *("--zero-terminated", "--posix", "--sandbox", "--debug", "--help", "--version"),
    *("--follow-symlinks", "--expression", "--in-place", "--file", "--line-length"),
)
_SHORT = "nErsuziefl"
#: Commands that at most a number follows, and those that go on to the end of the line.
_ALONE = "=dDgGhHnNpPxzF{}qQlL"
_TO_END = "aic#:btTv"
_FLAGS = "gpiIMm0123456789"


class SedCall:
    """A call of sed: its scripts, the files it reads, and whether it writes them."""

    def __init__(self, words: list[str]) -> None:
        # On macOS an empty word follows -i.
        words = [word for word in words if word]
        self.scripts = programs.values(words, "e", "--expression", "fil")
        self.files = programs.plain(words, ("-e", "-f", "-l", "--expression", "--file"))
        self.from_file = bool(programs.values(words, "f", "--file", "eil"))
        self.in_place = any(
            "i" in programs.flag_letters(word, "efil") or programs.means(word, "--in-place")
            for word in words
        )
        self.known = all(_is_known(word) for word in words)
        if not self.scripts and not self.from_file:
            self.scripts, self.files = self.files[:1], self.files[1:]

    def is_harmless(self) -> bool:
        """True if its scripts run no program and write no other files."""
        return self.known and _is_harmless("\n".join(self.scripts))


def _is_known(word: str) -> bool:
    if word.startswith("--"):
        return word == "--" or any(programs.means(word, long) for long in _LONG)
    return all(mark in _SHORT + UNKNOWN for mark in programs.flag_letters(word, "efil"))


def _is_harmless(script: str) -> bool:
    at = 0
    while at < len(script):
        at = _address(script, at)
        if at < len(script):
            at = _command(script, at)
            if not at:
                return False
    return True


def _command(script: str, at: int) -> int:
    """The position after the command at `at`; 0 if the command does more than edit."""
    mark = script[at]
    if mark in _ALONE:
        return at + 1
    if mark in _TO_END:
        return _line(script, at, text=mark in "aic", ends=mark in ":btT")
    if mark not in "sy":
        return 0
    at = _parts(script, at + 1, 2)
    while mark == "s" and at < len(script) and script[at] in _FLAGS + UNKNOWN:
        at += 1
    return 0 if mark == "s" and script[at : at + 1] in ("e", "w") else at


def _address(script: str, at: int) -> int:
    """The position after blanks and the addresses of lines."""
    while at < len(script):
        mark = script[at]
        if mark in " \t\n;,!~+$IM0123456789" + UNKNOWN:
            at += 1
        elif mark == "/":
            at = _parts(script, at, 1)
        elif mark == "\\":
            at = _parts(script, at + 1, 1)
        else:
            break
    return at


def _parts(script: str, at: int, count: int) -> int:
    """The position after `count` parts that end with the mark at `at`."""
    end = script[at : at + 1]
    at += 1
    while at < len(script) and count:
        if script[at] == "\\":
            at += 1
        elif script[at] == end:
            count -= 1
        at += 1
    return at


def _line(script: str, at: int, *, text: bool, ends: bool) -> int:
    """The position after the line; a backslash continues a text, and `;` ends a label."""
    while at < len(script) and script[at] != "\n":
        if ends and script[at] in ";}":
            return at
        at += 2 if text and script[at] == "\\" else 1
    return at + 1
