"""The refusals of the HTTP server (who may ask, what is served, where it listens) and of a remote.

ServerError
├── NoToken            E100  no token, or a wrong one
├── RoleTooSmall       E101  the token's role may not do this
├── ForeignPage        E102  a page of another site, or a foreign host name
├── BodyTooLarge       E103  the request is larger than the limit
├── TooMany            E104  too many requests, or too many wrong tokens
├── NotServed          E105  this is not served over HTTP
├── ChangedMeanwhile   E106  the record has changed since it was shown
├── PortTaken          E107  another process listens there, or serves this repository
├── Exposed            E108  other machines could reach it without protection
├── ServerUnreachable  E109  the server that has the state cannot be reached
├── ExtraMissing       E112  the packages of an extra are not installed
└── NotPublished       E038  a git remote did not take a branch or saved work
"""

from __future__ import annotations

from tugtool.errors import TugError, plan_argument, quoted
from tugtool.errors.state import DatabaseUnavailable


class ServerError(TugError):
    """A refusal of the server, or of its start."""


class NoToken(ServerError):
    """No token was sent, or one that is not valid."""

    code = "E100"

    def __init__(self, problem: str = "no token was sent") -> None:
        super().__init__(
            f"{problem}: send Authorization: Bearer TOKEN", hint="tugcode serve token list"
        )


class RoleTooSmall(ServerError):
    """The role of the token does not allow this."""

    code = "E101"

    def __init__(self, what: str, *, role: str, needs: str) -> None:
        wanted = needs.partition("the role ")[2] or role.partition(" ")[0]
        super().__init__(
            f"{what} needs {needs}, and this token has the role {role}",
            hint=f"where the server runs: tugcode serve token add NAME --role {wanted}",
            role=role,
            needs=needs,
        )


class ForeignPage(ServerError):
    """The request comes from a page of another site, or names a host that is not this one."""

    code = "E102"

    def __init__(self, header: str, value: str) -> None:
        shown = f'is "{value[:100]}"' if value else "is missing or was sent twice"
        rule, hint = "this server answers only under its own names", "tugcode config"
        if header == "Sec-Fetch-Site":
            rule = "a page of another site asks, and only the page of this server may"
        elif header == "Host" and value:
            hint = f'if the name is yours, add "{value[:100]}" to serve.hosts, with its port'
        super().__init__(f"{header} {shown}: {rule}", hint=hint, header=header)


class BodyTooLarge(ServerError):
    """The request has more bytes, fields or levels than the limit."""

    code = "E103"

    def __init__(self, what: str, limit: int) -> None:
        hint = "send less at once; serve.max_body_bytes is the limit of a body: tugcode config"
        super().__init__(f"the request has more than {limit} {what}", hint=hint, limit=limit)


class TooMany(ServerError):
    """Requests come faster than the limit."""

    code = "E104"

    def __init__(self, what: str, *, retry_seconds: int) -> None:
        super().__init__(f"{what}: try again in {retry_seconds} s", retry_seconds=retry_seconds)


class NotServed(ServerError):
    """The command or option is not served over HTTP."""

    code = "E105"

    def __init__(self, what: str, *, reason: str, hint: str | None = None) -> None:
        super().__init__(f"{what} is not served: {reason}", hint=hint)


class ChangedMeanwhile(ServerError):
    """There are newer events than those that the caller has seen."""

    code = "E106"

    def __init__(self, plan: str, *, seen: int, last: int) -> None:
        super().__init__(
            f"the record of {plan} has changed since event {seen}: the last one is {last}",
            hint=f"tugcode log {plan_argument(plan)}",
            plan=plan,
            seen=seen,
            last=last,
        )


class PortTaken(ServerError):
    """Another process listens at the address, or serves this repository."""

    code = "E107"

    def __init__(self, address: str, *, by: str, hint: str = "tugcode serve --port 0") -> None:
        super().__init__(f"cannot listen at {address}: {by}", hint=hint, address=address)


class Exposed(ServerError):
    """Others could reach the server, and nothing protects it."""

    code = "E108"

    def __init__(self, host: str, *, lacks: str, hint: str) -> None:
        super().__init__(f"others can reach {host}, and {lacks}", hint=hint, host=host)


class ServerUnreachable(DatabaseUnavailable):
    """The server that has the state does not answer, or not as it should."""

    code = "E109"

    def __init__(
        self, url: str, *, reason: str, hint: str | None = None, sent: bool = False
    ) -> None:
        known = "; what was asked may have been done, so look before you repeat it" if sent else ""
        scheme, _, path = url.partition("://")
        socket = f"curl -sS --unix-socket {quoted(path)} http://localhost/healthz"
        usual = socket if scheme == "http+unix" else f"curl -sS {quoted(url + 'healthz')}"
        super().__init__(url, reason=f"{reason}{known}", hint=hint or usual, engine="server")


class ExtraMissing(ServerError):
    """The packages of an extra are not installed."""

    code = "E112"

    def __init__(self, extra: str, *, missing: str) -> None:
        super().__init__(
            f"the package {missing} is missing, which comes with the extra {extra}",
            hint=f"in the directory of its source: pip install '.[{extra}]', or the same with pipx",
            missing=missing,
        )


class NotPublished(ServerError):
    """Nothing is lost: the commits are here, and the next push brings them."""

    code = "E038"

    def __init__(self, remote: str, ref: str, *, reason: str, hint: str) -> None:
        message = f"{ref} is not on {remote} as it is here: {reason}"
        super().__init__(message, hint=hint, remote=remote, ref=ref)
