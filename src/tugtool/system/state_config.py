"""The settings of a state that is not in a file of the repository, and addresses without secrets.

Only commands with such a state load it, and those that read a configuration file.
"""

from __future__ import annotations

from tugtool import errors
from tugtool.system.agent_config import SwitchSetting, TextSetting
from tugtool.system.config import CONFIG_PATH


class AddressSetting(TextSetting):
    """An address without a password, because people show it to each other."""

    __slots__ = ()

    def expects(self) -> str:
        """The values that are allowed, in words."""
        return "an address, postgresql://host/database or https://host/, or nothing"

    def takes(self, value: object) -> bool:
        """True if `value` is an address; refuses one with a password, without quoting it."""
        if not super().takes(value):
            return False
        served = str(value).startswith(SERVERS)
        if without_password(str(value)) != value:
            problem = "state.url has a password, which belongs in TUGCODE_STATE_URL or PGPASSFILE"
            problem = "state.url has a token, which belongs in TUGCODE_TOKEN" if served else problem
            raise errors.BadSetting(CONFIG_PATH, problem, key="state.url")
        return value == "" or served or str(value).startswith(("postgresql://", "postgres://"))


#: Secret parameters of an address.
SECRET = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
#: What is shown instead of an address, or of its rest, that may be a password.
HIDDEN = "..."


#: How the address of a server of ours begins.
SERVERS = ("http://", "https://", "http+unix://")


def without_password(url: str) -> str:
    """The address without any part of a password; it may lose more than that."""
    scheme, mark, rest = url.partition("://")
    if url.startswith(SERVERS):
        place, slash, path = rest.partition("#")[0].partition("/")
        return f"{scheme}{mark}{place.rpartition('@')[2]}{slash}{path}"
    if not mark:
        return HIDDEN if any(c in url for c in ":=@") else url
    head, question, query = rest.partition("?")
    if "@" in query:
        # A password before the host with a question mark, or one of the parameters with an @.
        return f"{scheme}{mark}{HIDDEN}"
    before, at, after = head.rpartition("@")
    if at:
        head = f"{before.partition(':')[0]}@{after}"
    elif odd_port(head):
        head = head.replace(f":{odd_port(head)}", "")
    options = [each for each in query.split("&") if _is_shown(each)]
    tail = question + "&".join(options) if question and options else ""
    return f"{scheme}{mark}{head}{tail}"


def _is_shown(option: str) -> bool:
    """True for a parameter by its plain name; the rest may be a part of a password."""
    name, equals, _ = option.partition("=")
    return bool(equals) and name not in SECRET and name.replace("_", "").isalpha()


def odd_port(rest: str) -> str:
    """The text in place of the port that is not a port: a password without its host."""
    host = rest.partition("/")[0].partition("?")[0].rpartition("]")[2]
    port = host.partition(":")[2]
    # Several hosts, each with its port, are separated by commas.
    return "" if "," in host or port.isdecimal() else port


SETTINGS = {
    "state.url": AddressSetting(
        "",
        "what has the state: PostgreSQL as `postgresql://host/database`, `tugcode serve` as "
        "`https://host/`; empty: a file in `.tugtool/`",
    ),
    "state.ca_file": TextSetting(
        "",
        "the certificates that are trusted for a `state.url` with `https://`; empty: the system's, "
        "or SSL_CERT_FILE",
    ),
    "state.plain_http": SwitchSetting(
        False, "whether a `state.url` with `http://` may be on another machine, without TLS"
    ),
    "state.repository": TextSetting(
        "",
        "the name under which clones of this repository share a state; empty: the address of "
        "`origin`",
    ),
}
