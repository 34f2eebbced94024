"""The commands that bring the plugin to agent clients."""

from __future__ import annotations

from tugtool.cli.grammar import Command, Option

COMMANDS = (
    Command(
        "plugin path",
        "plugin",
        "show where the plugin for agent clients is",
        description="""\
The directory with the skills, the agents and the hooks. The directory around it is a
marketplace that clients can add; --json names both.""",
        examples=(
            ("tugcode plugin path", "its directory"),
            ('claude --plugin-dir "$(tugcode plugin path)"', "for one session, nothing installed"),
        ),
    ),
    Command(
        "plugin install",
        "plugin",
        "point an agent client at the plugin",
        description="""\
Runs the commands of the client that add the marketplace of this installation and install the
plugin from it, for the person that you are. Run it again after an update of Tugtool. With
--dry-run the commands are only shown.""",
        options=(
            Option("--client", "CLIENT", "which (default: claude)", choices=("claude", "codex")),
            Option("--dry-run", "", "change nothing; show the commands"),
        ),
        examples=(
            ("tugcode plugin install --dry-run", "what would be run?"),
            ("tugcode plugin install", "Claude Code has the skills"),
            ("tugcode plugin install --client codex", "and so has Codex"),
        ),
    ),
)
