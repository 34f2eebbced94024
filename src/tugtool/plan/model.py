"""What a plan is, as values. Everything knows the line it came from."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ("task", "test", "checkpoint")


class Diagnostic(NamedTuple):
    """Something a person should know about the plan's text."""

    code: str
    line: int
    message: str
    #: What to do about it.
    suggestion: str = ""
    anchor: str | None = None


class Anchor(NamedTuple):
    """`{#name}` somewhere in the text, or the name a step got from its number."""

    name: str
    line: int
    on_heading: bool
    on_step: bool = False


class Passage(NamedTuple):
    """The text behind a label."""

    text: str
    line: int


class Item(NamedTuple):
    """One box of a checklist."""

    kind: str
    #: 0-based within the kind, in document order.
    ordinal: int
    text: str
    line: int
    #: Whether the box is ticked in the file; the state does not care.
    ticked: bool


class Need(NamedTuple):
    """A dependency: the anchor of the step that must be done before."""

    anchor: str
    line: int


class Step(NamedTuple):
    """A step or, with `parent`, a substep."""

    anchor: str
    number: str
    title: str
    level: int
    line: int
    #: Document order over steps and substeps together, 0-based.
    step_index: int
    parent: str | None
    needs: tuple[Need, ...]
    #: The text of `Depends on`, as it stands.
    depends_on: Passage | None
    commit: Passage | None
    references: Passage | None
    artifacts: Passage | None
    rollback: Passage | None
    items: tuple[Item, ...]
    substeps: tuple[Step, ...]

    def family(self) -> tuple[Step, ...]:
        """The step and its substeps."""
        return (self, *self.substeps)

    @property
    def verification_only(self) -> bool:
        """Whether the step only looks at what others did: its commit is `N/A`."""
        return self.commit is not None and self.commit.text.lstrip("`*_ ").upper().startswith("N/A")


class Decision(NamedTuple):
    """`[D01] Title (DECIDED)` or `[Q01] Title (OPEN)`."""

    name: str
    title: str
    status: str | None
    anchor: str | None
    line: int

    @property
    def is_question(self) -> bool:
        """Whether it is still asked rather than decided."""
        return self.name.startswith("Q")


class Plan(NamedTuple):
    """A whole plan, and what the parser has to say about its text."""

    title: str | None
    purpose: Passage | None
    #: Rows of the table in the section `plan-metadata`, by lower-case field name.
    metadata: dict[str, Passage]
    decisions: tuple[Decision, ...]
    anchors: tuple[Anchor, ...]
    steps: tuple[Step, ...]
    line_count: int
    #: Near misses and placeholders; the rules add theirs.
    diagnostics: tuple[Diagnostic, ...]

    def every_step(self) -> Iterator[Step]:
        """Steps and substeps in document order."""
        found = [each for step in self.steps for each in step.family()]
        return iter(sorted(found, key=lambda step: step.step_index))
