"""The settings of `[serve]`, `[mcp]` and `[remote]`: how others get at the state and commits."""

from __future__ import annotations

from tugtool.system.agent_config import ListSetting, SwitchSetting, TextSetting
from tugtool.system.config import Setting


class WordsSetting(ListSetting):
    """A list of words."""

    __slots__ = ()

    def expects(self) -> str:
        """The values that are allowed, in words."""
        return "a list of words"

    def _takes_one(self, value: object) -> bool:
        return isinstance(value, str) and value.isprintable()


class RemoteSetting(TextSetting):
    """The name of a git remote; empty if commits stay on this machine."""

    __slots__ = ()

    def expects(self) -> str:
        """The values that are allowed, in words."""
        return 'the name of a git remote, such as "origin"'

    def takes(self, value: object) -> bool:
        """True if `value` is a name, not an address and not an option of git."""
        # Git would take an address or a path too, and a program with it (`ext::`).
        plain = isinstance(value, str) and value.replace("-", "_").replace(".", "_").isidentifier()
        return plain and str(value).isascii() and str(value)[0] not in "-."


SETTINGS: dict[str, Setting] = {
    "remote.name": RemoteSetting(
        "",
        "the git remote by which commits travel between machines: `commit` pushes to it, `claim` "
        "and `worktree sync` fetch from it; empty: no command uses the network for git",
    ),
    "remote.seconds": Setting(60, "how long a push or a fetch may take"),
    "serve.host": TextSetting(
        "127.0.0.1",
        "the address to listen at; other than 127.0.0.1 and ::1 it needs tokens, and `tls_cert` "
        "or `behind_proxy` (E108)",
    ),
    "serve.port": Setting(8840, "the port; 0: any free one", least=0),
    "serve.unix": TextSetting(
        "",
        "also listen at this Unix socket, for processes of the same user, without a token; `auto`: "
        "`tugtool/serve.sock` in git's directory",
    ),
    "serve.hosts": WordsSetting(
        [], "further names that may stand in Host and Origin, with the port unless it is 443"
    ),
    "serve.behind_proxy": SwitchSetting(
        False, "a proxy adds TLS; X-Forwarded-For counts if it comes from `trusted_proxies`"
    ),
    "serve.trusted_proxies": WordsSetting(["127.0.0.1"], "the addresses of that proxy"),
    "serve.tls_cert": TextSetting(
        "", "the certificate chain, a PEM file, from the repository's root"
    ),
    "serve.tls_key": TextSetting(
        "", "the key of the certificate, a PEM file, from the repository's root"
    ),
    "serve.git": SwitchSetting(False, "operators may make worktrees, commit and merge"),
    "serve.run_commands": SwitchSetting(
        False, "with `git`: operators may also run the commands of checkpoints"
    ),
    "serve.batch": Setting(64, "operations in one commit; 1: a commit for each"),
    "serve.max_streams": Setting(500, "live streams at once"),
    "serve.max_streams_per_token": Setting(50, "live streams of one token at once"),
    "serve.max_body_bytes": Setting(1048576, "larger requests are refused (E103)"),
    "serve.writes_per_second": Setting(
        50, "writes of one token, on average; four times as many at once (E104)"
    ),
    "serve.git_seconds": Setting(120, "how long a request waits for git"),
    "mcp.idle_seconds": Setting(
        3600, "`tugcode mcp` renews the leases of a client no more that was silent for so long"
    ),
    "mcp.role": Setting(
        "worker",
        "the role of a client of `tugcode mcp`; only `--role` makes an operator",
        choices=("viewer", "worker"),
    ),
}
