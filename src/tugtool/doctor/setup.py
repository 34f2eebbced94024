"""Set-up: the files that `tugcode init` makes, what git ignores and merges, and the settings."""

from __future__ import annotations

from tugtool import git, init, log
from tugtool.doctor.finding import error, note, warning
from tugtool.errors import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.doctor.finding import Finding
    from tugtool.doctor.patient import Patient

#: A plan can be written without it.
_OPTIONAL = ".tugtool/tugplan-skeleton.md"


def files(patient: Patient) -> Iterator[Finding]:
    """What `tugcode init` would make."""

    def mend() -> str:
        made = [name for name, missing in init.init(patient.repo).items() if missing]
        return f"made {', '.join(made)}" if made else "it is there now"

    report = init.init(patient.repo, check=True)
    missing = [name for name, is_missing in report.items() if is_missing]
    if missing:
        severity = note if missing == [_OPTIONAL] else warning
        said = f"missing, or without what belongs there: {', '.join(missing)}"
        yield severity(said, hint="tugcode init", mend=mend)


def ignored(patient: Patient) -> Iterator[Finding]:
    """Whether git passes over the state and the worktrees, whatever file says so."""
    wanted = [f".tugtool/{name}" for name in init.STATE_FILES] + [".tugtree/any"]
    words = ("check-ignore", "--no-index", "-z", "--stdin")
    done = git.attempt(*words, cwd=patient.repo.root, given="".join(f"{w}\0" for w in wanted))
    seen = set(done.out.split("\0"))
    lacking = [name for name in wanted if name not in seen]
    if lacking:
        hint = f"git check-ignore --verbose --no-index {' '.join(lacking)}"
        shown = ", ".join(lacking).replace(".tugtree/any", ".tugtree/")
        # Where our own rules are missing, `files` says so, and writes them.
        yield warning(f"git does not ignore {shown}", hint=hint)


def tracked(patient: Patient) -> Iterator[Finding]:
    """Files of the state that somebody has added to git."""
    names = [f".tugtool/{name}" for name in init.STATE_FILES]
    words = ("--literal-pathspecs", "ls-files", "-z", "--", *names, ".tugtree")
    for name in git.run(*words, cwd=patient.repo.root).split("\0"):
        if name:
            hint = f"git rm --cached -- {quoted(name)}"
            said = f"git tracks {name}, which belongs to this machine alone"
            yield error(said, hint=hint)


def settings(patient: Patient) -> Iterator[Finding]:
    """Whether every command can read `.tugtool/config.toml`."""
    if patient.unset is not None:
        broken = patient.unset
        yield error(f"{broken.code}: {broken.message}", hint=broken.hint or "tugcode config")


def log_merging(patient: Patient) -> Iterator[Finding]:
    """Whether git keeps both sides' entries when branches that have written the log meet."""
    out = git.run("check-attr", "-z", "merge", "--", log.PATH, cwd=patient.repo.root)
    value = out.split("\0")[2]
    if value == "union":
        return
    hint = f"git check-attr merge -- {log.PATH}"
    if value == "unspecified":
        said = f"{log.PATH} is not merged by git's union driver, so branches will be in conflict"
        yield warning(said, hint=hint)
    else:
        yield note(f"{log.PATH} is merged as somebody has set it: {value}, not union", hint=hint)
