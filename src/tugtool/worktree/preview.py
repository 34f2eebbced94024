"""Merges as commits that nothing leads to yet: what a worktree would become."""

from __future__ import annotations

from tugtool import blend, git
from tugtool.git_errors import DependencyConflict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tugtool.store import Row

    Data = dict[str, object]


class Preview:
    """The merges as commits that nothing leads to yet; the worktree is not touched."""

    def __init__(self, top: str, plan: str, head: str, done: Sequence[Row]) -> None:
        self.top, self.plan, self.head = top, plan, head
        #: The plan's steps by their commits, in the plan's order.
        self.done: dict[str, Row] = {}
        for row in done:
            self.done.setdefault(row["commit_hash"], row)
        self._signing: list[str] | None = None

    def run(self, wanted: list[Data]) -> str:
        """The commit that has all of them."""
        anchors: dict[str, str] = {}
        for each in wanted:
            anchors.setdefault(str(each["commit"]), str(each["step_anchor"]))
        # Those that no other brings along, HEAD among them: the rest needs no merge of its own.
        done = git.attempt("merge-base", "--independent", self.head, *anchors, cwd=self.top)
        if done.status:
            # One that git does not know is refused when its turn comes.
            return self._one_by_one(anchors)
        tips = done.out.split()
        together = self._together(tips) if len(tips) > 2 else None
        return together or self._one_by_one({c: a for c, a in anchors.items() if c in tips})

    def _together(self, tips: list[str]) -> str | None:
        """All of them, by a merge that is the same in every worktree; None if they conflict.

        If each worktree merged in its own way, they would have ever more common ancestors
        side by side, and git would merge those too, again and again, at every later merge.
        """
        order = list(self.done)
        tips = sorted(tips, key=lambda tip: (order.index(tip) if tip in self.done else -1, tip))
        dates = [str(self.done[tip]["completed_at"] or "") for tip in tips if tip in self.done]
        end, *others = tips
        for tip in others:
            merged = (blend.commits if tip == others[-1] else blend.by_git)(self.top, end, tip)
            if not merged.clean:
                return None
            anchor = self.done[tip]["anchor"] if tip in self.done else tip
            end = self._commit(merged.tree, (end, tip), anchor, date=max(dates, default=""))
        return end

    def _one_by_one(self, anchors: Mapping[str, str]) -> str:
        """What is here with one after the other: so it can be said which of them conflicts."""
        for commit, anchor in anchors.items():
            if not self._moved(commit, anchor):
                self.head = self._with(commit, anchor)
        return self.head

    def _moved(self, commit: str, anchor: str) -> bool:
        """Whether one of the two has the other behind it, so that nothing is to be merged."""
        kin = self._kin(commit, anchor)
        if kin == self.head:
            self.head = commit
            return True
        return kin == commit

    def _kin(self, commit: str, anchor: str) -> str:
        kin = git.attempt("merge-base", self.head, commit, cwd=self.top)
        if kin.status:
            reason = "git has no common history of the two here"
            raise self._refusal(anchor, commit, reason)
        return kin.out.strip()

    def _with(self, commit: str, anchor: str) -> str:
        done = blend.commits(self.top, self.head, commit)
        if not done.clean:
            reason = done.refusal or "both changed the same lines"
            raise self._refusal(anchor, commit, reason, done.files)
        return self._commit(done.tree, (self.head, commit), anchor)

    def _commit(self, tree: str, parents: Sequence[str], anchor: str, *, date: str = "") -> str:
        message = f"Merge {anchor} of {' '.join(self.plan.split())}\n"
        words_ = ("commit-tree", *self._sign(), *(w for p in parents for w in ("-p", p)), tree)
        return git.run(*words_, cwd=self.top, given=message, date=date or None).strip()

    def _sign(self) -> list[str]:
        if self._signing is None:
            found = git.attempt("config", "--type=bool", "--get", "commit.gpgSign", cwd=self.top)
            self._signing = ["-S"] if found.out.strip() == "true" else []
        return self._signing

    def _refusal(
        self, anchor: str, commit: str, reason: str, files: Sequence[str] = ()
    ) -> DependencyConflict:
        facts = {"anchor": anchor, "commit": commit, "reason": reason}
        return DependencyConflict(self.top, **facts, files=files)
