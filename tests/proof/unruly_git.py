"""What random agents do with git: in their worktree, on branches, in the shared git directory.

The scene has two branches beside main: `side` adds a file, `clash` changes a line of `code.txt`
that main has changed as well.
"""

import os

from unruly_deeds import FILES, Deed
from unruly_hand import Hand, Impossible

MAIN = "refs/heads/main"


def stage(hand: Hand) -> None:
    """A file is staged, and perhaps changed once more."""
    name = hand.pick()
    hand.git("add", "--force", "--", f":(literal){name}")
    if hand.chance.random() < 0.5:
        with open(hand.top / name, "a") as file:
            file.write(hand.text())


def unstage_all(hand: Hand) -> None:
    """The index is emptied; the files stay."""
    hand.git("rm", "--quiet", "-r", "--cached", ".")


def stash(hand: Hand) -> None:
    """All changes go to the stash, untracked files too."""
    hand.note()
    hand.git("stash", "push", "--quiet", "--include-untracked")


def stash_pop(hand: Hand) -> None:
    """All changes go to the stash and come back."""
    hand.git("stash", "push", "--quiet", "--include-untracked")
    hand.git("stash", "pop", "--quiet")


def stash_conflict(hand: Hand) -> None:
    """What comes back from the stash conflicts with what is there by then."""
    _first_line(hand, "stashed")
    hand.note()
    hand.git("stash", "push", "--quiet", "--include-untracked")
    _first_line(hand, "other")
    hand.git("add", "code.txt")
    hand.git("stash", "pop", "--quiet", check=False)


def _first_line(hand: Hand, text: str) -> None:
    path = hand.top / "code.txt"
    if not path.is_file():
        raise Impossible("there is no code.txt")
    path.write_text(f"{text} {hand.text()}" + "".join(path.read_text().splitlines(True)[1:]))


def commit(hand: Hand) -> None:
    """All changes are committed."""
    hand.git("add", "--all")
    hand.git("commit", "--quiet", "--no-verify", "--allow-empty", "-m", "unruly")


def amend(hand: Hand) -> None:
    """The last commit, which is not the agent's, is written anew."""
    hand.note()
    hand.git("add", "--all")
    hand.git("commit", "--quiet", "--no-verify", "--amend", "-m", "unruly")


def merge(hand: Hand) -> None:
    """A merge without conflicts is left under way."""
    hand.git("merge", "--quiet", "--no-commit", "--no-ff", "side")


def merge_conflict(hand: Hand) -> None:
    """A merge with a conflict is left under way."""
    hand.git("merge", "--quiet", "--no-edit", "clash", check=False)


def cherry_pick(hand: Hand) -> None:
    """A commit is picked, with a conflict, and left under way."""
    hand.git("cherry-pick", "clash", check=False)


def revert(hand: Hand) -> None:
    """The last commit is reverted and left under way."""
    hand.note()
    hand.git("revert", "--no-commit", "HEAD", check=False)


def mail(hand: Hand) -> None:
    """A patch from a mail does not apply, and is left under way."""
    patch = hand.git("format-patch", "--stdout", "-1", "clash")
    path = hand.root.parent / f"patch-{os.getpid()}"
    path.write_text(f"{patch}\n")
    hand.git("am", "--quiet", "--3way", str(path), check=False)


def rebase(hand: Hand) -> None:
    """The branch is rebased onto another, and left under way where that conflicts."""
    hand.note()
    commit(hand)
    hand.git("rebase", "--quiet", hand.chance.choice(("clash", "side")), check=False)


def switch(hand: Hand) -> None:
    """Another branch is checked out, a new one, or none."""
    hand.note()
    new = f"detour-{hand.mark.replace(' ', '-')}"
    ways = (("-c", new), ("--detach",), ("--merge", "side"))
    hand.git("switch", "--quiet", *hand.chance.choice(ways))


def sparse(hand: Hand) -> None:
    """Only `src/` stays checked out; a new file lies outside of it."""
    hand.note()
    hand.git("sparse-checkout", "set", "--cone", "src", ".tugtool")
    hand.write(f"out/sparse-{hand.mark.replace(' ', '-')}.txt")


def bare(hand: Hand) -> None:
    """The shared settings call the repository bare."""
    _set(hand, "core.bare", "true")


def elsewhere(hand: Hand) -> None:
    """The shared settings name another directory as the main checkout."""
    _set(hand, "core.worktree", str(hand.outside))


def hooks_path(hand: Hand) -> None:
    """The shared settings name hooks that refuse every commit."""
    _hook(hand.root.parent / "hooks" / "pre-commit", "exit 1")
    _set(hand, "core.hooksPath", str(hand.root.parent / "hooks"))


def hook(hand: Hand) -> None:
    """A hook in the shared git directory refuses commits, or writes into them."""
    what = hand.chance.choice(("exit 1", "echo hooked >hooked.txt; git add hooked.txt"))
    _hook(hand.root / ".git" / "hooks" / "pre-commit", what)


def _hook(path, what: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{what}\n")
    path.chmod(0o755)


def _set(hand: Hand, name: str, value: str) -> None:
    hand.git("config", "--file", str(hand.root / ".git" / "config"), name, value)


def replace_object(hand: Hand) -> None:
    """Git takes another commit for that of HEAD."""
    hand.git("replace", "--force", hand.chance.choice(("HEAD", "main")), "side")


def main_commit(hand: Hand) -> None:
    """A commit in the main checkout."""
    (hand.root / "committed.txt").write_text(hand.text())
    hand.git("add", "committed.txt", at=hand.root)
    hand.git("commit", "--quiet", "--no-verify", "-m", "stray", at=hand.root)
    hand.in_main.append("committed.txt")


def main_moved(hand: Hand) -> None:
    """The branch of the main checkout is moved under it."""
    hand.git("update-ref", MAIN, "side")


def main_switched(hand: Hand) -> None:
    """The main checkout gets another branch."""
    hand.git("switch", "--quiet", "-c", f"stray-{hand.mark.replace(' ', '-')}", at=hand.root)


GIT: dict[str, Deed] = {
    deed.__name__: deed
    for deed in (
        *(stage, unstage_all, stash, stash_pop, stash_conflict, commit, amend),
        *(merge, merge_conflict, cherry_pick, revert, mail, rebase, switch, sparse),
        *(bare, elsewhere, hooks_path, hook, replace_object),
        *(main_commit, main_moved, main_switched),
    )
}
DEEDS: dict[str, Deed] = {**FILES, **GIT}
