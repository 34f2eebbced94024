"""How to run a command that no test has to prepare anything for."""

from tugtool.cli import parse


def plainest(path: str, *, plan: str, step: str = "step-1") -> list[str]:
    """The words of a command with its plan and its step, and with nothing else."""
    values = {"plan": plan, "step": step}
    command = parse.find(path)
    assert command is not None, path
    return [
        *path.split(),
        *(values[each.kind] for each in command.arguments if each.kind in values),
    ]
