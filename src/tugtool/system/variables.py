"""The environment variables that Tugtool reads, for the documentation; `config` reads them."""

from __future__ import annotations

#: Every variable that changes what Tugtool does.
VARIABLES = {
    "NO_COLOR": "not empty: no colours, also on a terminal",
    "TERM": "`dumb`: no colours, pictures in ASCII, `--watch` prints one below the other; `linux`: "
    "pictures in ASCII",
    "COLUMNS": "how wide to write, instead of the terminal's width",
    "TUGCODE_STATE_URL": "what has the state, as `state.url`, also with a password; empty: a file",
    "TUGCODE_SERVER": "the server that has the state, as `state.url`; TUGCODE_STATE_URL wins",
    "TUGCODE_TOKEN": "the token for that server, which `tugcode serve token add` prints",
    "TUGCODE_MACHINE": "this machine's name in a state that machines with the same id share",
    "TUGCODE_TRUST": "set to 1: this repository is trusted, as `tugcode trust` would say",
    "XDG_STATE_HOME": "where `tugcode trust` keeps your answers; `~/.local/state` if it is not set",
    "TUGCODE_DEBUG": "set to 1: errors show where in the code they arose",
    "TUGCODE_ATTEMPT": "the attempt a worker runs under, as `--attempt`, for the step TUGCODE_STEP",
    "TUGCODE_STEP": "the step that TUGCODE_ATTEMPT belongs to",
    "TUGCODE_PLAN": "the plan that TUGCODE_ATTEMPT belongs to; any if not set",
    "TUGCODE_WORKTREE": "the worktree that a worker was given; an agent with a role edits only it",
    "TUGCODE_ROLE": "the caller's role; it may run only what docs/internals/guard.md says",
    "TUGCODE_CRASH_AT": "for tests: the name of a point (docs/internals/crash-points.md) at which "
    "the process kills itself, as `kill -9` would, or waits",
    "TUGCODE_SCRIPT_LOG": "for tests: where the scripted agent counts its calls",
    "CLAUDE_CONFIG_DIR": "as for Claude Code: `doctor` looks there for the plugin",
    "CODEX_HOME": "as for Codex: `doctor` looks there for the plugin",
    "GIT_DIR": "as for git; Tugtool then asks git for the repository",
    "GIT_WORK_TREE": "as for git",
    "GIT_COMMON_DIR": "as for git",
    "GIT_CEILING_DIRECTORIES": "as for git",
}
