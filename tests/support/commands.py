"""How to run a command that no test has to prepare anything for."""

from collections.abc import Iterator

from tugtool.cli import parse


def plainest(path: str, *, plan: str, step: str = "step-1") -> list[str]:
    """The words of a command with its plan, its step and required options, and nothing else."""
    values = {"plan": plan, "step": step}
    command = parse.find(path)
    assert command is not None, path
    return [
        *path.split(),
        *(values[each.kind] for each in command.arguments if each.kind in values),
        *(word for each in command.options if is_required(each) for word in (each.name, "x")),
    ]


def is_required(option: parse.Option) -> bool:
    """Whether the command is refused without it, as its help says."""
    return option.help.endswith("; required")


def looking(plan: str, step: str, **others: str) -> Iterator[str]:
    """The lines of all commands that look, by the table; `others` says what else one names."""
    for path in parse.FAMILIES:
        if parse.access(path) in ("look", "read"):
            words = plainest(path, plan=plan, step=step)
            yield " ".join([*words, *filter(None, [others.get(path.replace(" ", "_"))])])
