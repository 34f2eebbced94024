"""Secrets: they are masked in what commands print.

A variable is secret by its name. Its value is found as it is, and as programs write it: in a
URL, in JSON, in base64 and in hexadecimal; also if it comes in two pieces. Other secrets, such as
those in files, are found by their shapes: tokens with a known beginning, private keys.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import urllib.parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Names of variables whose values are secret: these words, or these endings.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE"
    r"|BEARER|COOKIE|WEBHOOK|CONNECTION_STRING|(?:^|_)(?:KEY|AUTH|PAT|PWD|DSN|JWT|SID|OTP|SALT)$",
    re.IGNORECASE,
)
#: Names that only look like that: paths, numbers and directories.
_PUBLIC = re.compile(
    r"^(?:OLD)?PWD$|(?:_|^)(?:SOCK|FILE|PATH|DIR|URI?|HOST|USER|NAME|ID|TYPE|LIMIT|COUNT|TOKENS)$"
    r"|MAX_|BUDGET|TOKENIZERS_PARALLELISM",
    re.IGNORECASE,
)
#: A URL may hold a password: `postgresql://user:password@host/`.
_IN_URL = re.compile(r"^[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE)
#: Shorter values would mask ordinary words.
LEAST_CHARACTERS = 6
#: A line of a key in several lines counts by itself from this length on.
_LEAST_LINE = 16
_PLAIN_WORDS = frozenset(("always", "default", "disabled", "enabled", "required", "optional"))


_BEGIN = rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
#: The lines of a key, also as JSON writes them. Quotes and braces are not part of one, so that
#: two mentions of a key in a program's answer do not swallow what is between them.
_BODY = rb"(?:[A-Za-z0-9+/=:,.()\s]|\\[nr])"
_WHOLE_KEY = _BEGIN + rb"(" + _BODY + rb"{16,16000}?)(?:-----END [A-Z0-9 ]{0,40}-----|\Z)"
#: Secrets that are known by their shapes: what each is called, what it cannot be without, and its
#: pattern, whose group, if there is one, is what is secret. A pattern that begins with its sign is
#: searched fast; one that may go on for long looks back, so that it is tried once for a word.
_SHAPES: tuple[tuple[str, bytes, bytes], ...] = (
    ("AWS key", b"AKIA", rb"AKIA[A-Z0-9]{16}\b"),
    ("AWS key", b"ASIA", rb"ASIA[A-Z0-9]{16}\b"),
    *(("GitHub token", sign, sign + rb"[A-Za-z0-9]{30,255}") for sign in (b"ghp_", b"gho_")),
    *(("GitHub token", sign, sign + rb"[A-Za-z0-9]{30,255}") for sign in (b"ghs_", b"ghu_")),
    ("GitHub token", b"github_pat_", rb"github_pat_[A-Za-z0-9_]{22,255}"),
    ("GitLab token", b"glpat-", rb"glpat-[A-Za-z0-9_-]{18,255}"),
    ("Slack token", b"xox", rb"xox[abeoprs]-[A-Za-z0-9-]{10,255}"),
    ("Slack webhook", b"hooks.slack.com", rb"hooks\.slack\.com/services/([A-Za-z0-9/]{20,255})"),
    (
        "API key",
        b"sk-",
        rb"sk-(?<![A-Za-z0-9_-]sk-)(?=[A-Za-z_-]{0,80}[0-9])[A-Za-z0-9_-]{20,255}",
    ),
    ("Google key", b"AIza", rb"AIza[A-Za-z0-9_-]{35}"),
    ("Google key", b"ya29.", rb"ya29\.[A-Za-z0-9_-]{20,1000}"),
    ("Stripe key", b"k_live_", rb"[rs]k_live_[A-Za-z0-9]{16,255}"),
    ("Stripe key", b"k_test_", rb"[rs]k_test_[A-Za-z0-9]{16,255}"),
    ("SendGrid key", b"SG.", rb"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}"),
    ("Hugging Face token", b"hf_", rb"hf_[A-Za-z0-9]{30,255}"),
    ("npm token", b"npm_", rb"npm_[A-Za-z0-9]{36,255}"),
    ("PyPI token", b"pypi-", rb"pypi-(?<![A-Za-z0-9_-]pypi-)[A-Za-z0-9_-]{32,1000}"),
    ("DigitalOcean token", b"_v1_", rb"do[opr]_v1_[a-f0-9]{64}"),
    ("Vault token", b"hvs.", rb"hvs\.[A-Za-z0-9_-]{20,1000}"),
    ("age key", b"AGE-SECRET-KEY-1", rb"AGE-SECRET-KEY-1[A-Z0-9]{50,80}"),
    ("tugcode token", b"tug_", rb"tug_[A-Za-z0-9_-]{40,60}"),
    ("Azure key", b"AccountKey=", rb"AccountKey=([A-Za-z0-9+/]{40,255}={0,2})"),
    (
        "JWT",
        b"eyJ",
        rb"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,4000}"
        rb"\.[A-Za-z0-9_-]{3,2000}",
    ),
    ("bearer token", b"earer ", rb"earer ([A-Za-z0-9._~+/-]{20,4000}=*)"),
    ("password", b"://", rb"://[^\s/:@\"'\[\]{}<>`]{0,100}:([^\s/@\"'\[\]{}<>$`]{3,200})@"),
    ("private key", b"PRIVATE KEY", _WHOLE_KEY),
)
_KEY = re.compile(_WHOLE_KEY)
#: The end of what was printed so far: a word that may go on, or the beginning of a private key.
_LONGEST_WORD, _LONGEST_KEY = 4096, 16384
_LAST_WORD = re.compile(rb"(?:[Bb]earer )?[^\s\"'`]{1,4096}\Z|[Bb]earer \Z")
_LAST_KEY = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}(?:-{0,5}|-----"
    + _BODY
    + rb"{0,16000}(?:-{0,5}|-----[A-Z0-9 ]{0,44}-{0,4}))\Z"
)


def _without_shapes(data: bytes) -> bytes:
    for name, sign, pattern in _SHAPES:
        if sign in data:
            data = re.sub(pattern, functools.partial(_masked_shape, name), data)
    return data


def _masked_shape(name: str, found: re.Match[bytes]) -> bytes:
    """Return a secret with a known shape without its secret part."""
    start, end = found.span(found.re.groups and 1)
    whole, base = found[0], found.start()
    return whole[: start - base] + f"[{name} masked]".encode() + whole[end - base :]


def is_secret(name: str) -> bool:
    """Return whether the value of a variable with this name is secret."""
    return bool(_SECRET.search(name)) and not _PUBLIC.search(name)


def values(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secret values in an environment, each with the name of its variable."""
    found: dict[str, str] = {}
    for name, value in environment.items():
        password = _IN_URL.match(value)
        if password:
            found.setdefault(urllib.parse.unquote(password[1]), name)
            found.setdefault(password[1], name)
        elif is_secret(name):
            found.setdefault(value.strip(), name)
            lines = value.split("\n") if "\n" in value else []
            # The first and last lines of a key only say that it is one.
            for line in (line.strip() for line in lines):
                if len(line) >= _LEAST_LINE and not line.startswith("-----"):
                    found.setdefault(line, name)
    return {
        value: name
        for value, name in found.items()
        if len(value) >= LEAST_CHARACTERS and value.lower() not in _PLAIN_WORDS
    }


class Mask:
    """Replaces the secret values of an environment by the names of their variables."""

    __slots__ = ("_forms", "_pattern", "longest")

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._forms: dict[bytes, bytes] = {}
        for value, name in values(environment).items():
            for form in forms(value):
                self._forms.setdefault(form, f"[{name} masked]".encode(errors="replace"))
        # The longest first: one form may contain another.
        every = sorted(self._forms, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, every))) if every else None
        self.longest = len(every[0]) if every else 0

    def data(self, data: bytes) -> bytes:
        """Return the bytes without secrets."""
        if self._pattern is not None:
            data = self._pattern.sub(lambda found: self._forms[found[0]], data)
        return _without_shapes(data)

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        return self.data(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")

    def whole(self, data: bytes, end: int) -> int:
        """Return `end`, or the start of a secret that it would cut in two."""
        found = list(self._pattern.finditer(data)) if self._pattern else []
        # Of the other shapes none has a blank in it, so the last word has all of it.
        found += _KEY.finditer(data) if b"PRIVATE KEY" in data else ()
        return min((each.start() for each in found if each.start() < end < each.end()), default=end)

    def unfinished(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of a secret."""
        most = _unfinished_shape(data)
        start = max(0, len(data) - self.longest + 1)
        for at in range(start, len(data) - most):
            rest = data[at:]
            if any(form.startswith(rest) for form in self._forms if form[0] == rest[0]):
                return len(data) - at
        return most


def _unfinished_shape(data: bytes) -> int:
    """Return how many bytes at the end may be the beginning of a secret with a known shape."""
    key = _LAST_KEY.search(data, max(0, len(data) - _LONGEST_KEY))
    # A search from the left finds the longest.
    word = _LAST_WORD.search(data, max(0, len(data) - _LONGEST_WORD))
    starts = [found.start() for found in (key, word) if found is not None]
    return len(data) - min(starts, default=len(data))


def forms(value: str) -> Iterator[bytes]:
    """Yield the ways in which programs write a value."""
    raw = value.encode(errors="surrogateescape")
    yield raw
    yield urllib.parse.quote(raw, safe="").encode()
    yield urllib.parse.quote_plus(raw).encode()
    yield json.dumps(value)[1:-1].encode()
    yield json.dumps(value, ensure_ascii=False)[1:-1].encode(errors="surrogateescape")
    if len(raw) >= 2 * LEAST_CHARACTERS:
        yield raw.hex().encode()
        # In base64 a value looks different at each of three offsets.
        for offset in range(3):
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                yield _core(encode(b"\0" * offset + raw).rstrip(b"="), offset, len(raw))


def _core(encoded: bytes, offset: int, length: int) -> bytes:
    """Return the characters that depend on the value alone, not on what stands beside it."""
    return encoded[-(-offset * 8 // 6) : (offset + length) * 8 // 6]


class MaskedStream:
    """Passes bytes on without secrets, also without one that comes in two pieces."""

    __slots__ = ("_mask", "_rest", "_sink")

    def __init__(self, mask: Mask, sink: Callable[[bytes], object]) -> None:
        self._mask, self._sink = mask, sink
        self._rest = b""

    def write(self, data: bytes) -> None:
        """Pass on what is complete."""
        data = self._rest + data
        end = len(data) - self._mask.unfinished(data)
        end = self._mask.whole(data, end)
        self._rest = data[end:]
        if end:
            self._sink(self._mask.data(data[:end]))

    def flush(self) -> None:
        """Pass on the rest."""
        rest, self._rest = self._rest, b""
        if rest:
            self._sink(self._mask.data(rest))
