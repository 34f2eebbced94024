"""Secrets: values of variables that look secret are masked, however a program writes them."""

import base64
import json
import urllib.parse

import pytest

from tugtool.system import secrets
from tugtool.system.secrets import Mask, MaskedStream

KEY = (
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQC7\n-----END"
)
#: Twenty kinds of secrets, by the variables that people keep them in.
KINDS = {
    "ANTHROPIC_API_KEY": "sk-ant-api03-Zx9_kQ2mWv",
    "OPENAI_API_KEY": "sk-proj-1234567890abcdef",
    "GITHUB_TOKEN": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "GITLAB_PAT": "glpat-x1x2x3x4x5x6x7",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "AWS_SESSION_TOKEN": "FwoGZXIvYXdzEBYaDHVz==",
    "NPM_TOKEN": "npm_0123456789abcdefghij",
    "PYPI_PASSWORD": "pypi-AgEIcHlwaS5vcmcCJD",
    "SLACK_WEBHOOK": "T000/B000/XXXXXXXXXXXXXXXX",
    "STRIPE_SECRET": "sk_live_4eC39HqLyjWDarjtT1",
    "DATABASE_URL": "postgresql://me:p%40ss-w0rd@db.example/shop",
    "PGPASSWORD": "correct horse battery",
    "REDIS_URL": "redis://:s3cr3t-redis@cache:6379/0",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    "DEPLOY_PRIVATE_KEY": KEY,
    "GPG_PASSPHRASE": "tréma & blank",
    "SESSION_COOKIE": "sid=0a1b2c3d4e5f",
    "SENTRY_DSN": "https://0123456789abcdef@sentry.example/1",
    "BASIC_AUTH": "user:hunter2-hunter2",
    "VAULT_CREDENTIALS": '{"role": "x", "id": "q1w2e3r4"}',
    "TWILIO_API_SECRET": "0f1e2d3c4b5a69788796",
}
#: What in them is secret, where that is not the whole.
PARTS = {"DATABASE_URL": "p%40ss-w0rd", "REDIS_URL": "s3cr3t-redis"}


#: Secrets that are in no variable, such as those in files, by their shapes.
SHAPES = {
    "AWS key": "AKIAIOSFODNN7EXAMPLE",
    "GitHub token": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "GitLab token": "glpat-x1x2x3x4x5x6x7x8x9x0",
    "Slack token": "xoxb-123456789012-abcdefGHIJKL",
    "Slack webhook": "T0000000/B0000000/abcdefghijklmnop",
    "API key": "sk-ant-api03-Zx9_kQ2mWv-0123456789",
    "Google key": "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "Stripe key": "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "SendGrid key": "SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf-09kqeF8tAmbihY",
    "Hugging Face token": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "npm token": "npm_0123456789abcdefghijABCDEFGHIJ012345",
    "PyPI token": "pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDAtMDAwMC0w",
    "DigitalOcean token": "dop_v1_" + "0123456789abcdef" * 4,
    "Vault token": "hvs.CAESIJ2Q0123456789abcdef",
    "age key": "AGE-SECRET-KEY-1" + "QYQSZQGPQYQSZQGPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L01234567",
    "tugcode token": "tug_xcShl0WdTD2tkfXZ-4bHq7NjMOjrqW1kSelJY06CsfM",
    "Azure key": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq==",
    "bearer token": "mF_9.B5f-4.1JqM-0123456789",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN",
    "password": "hunter2secret",
    "private key": "\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQC7\n",
}
#: What stands around a secret, where that makes it one.
AROUND = {
    "Slack webhook": "https://hooks.slack.com/services/{}",
    "Azure key": "AccountName=x;AccountKey={};EndpointSuffix=y",
    "bearer token": "Authorization: Bearer {}",
    "password": "https://ada:{}@example.org/x",
    "private key": "-----BEGIN RSA PRIVATE KEY-----{}-----END RSA PRIVATE KEY-----",
}


def around(name: str) -> str:
    """A secret of this kind, as a program prints it."""
    return AROUND.get(name, "{}").format(SHAPES[name])


@pytest.mark.parametrize("name", SHAPES)
def test_a_secret_is_masked_by_its_shape(name):
    wanted = AROUND.get(name, "{}").format(f"[{name} masked]")
    assert Mask({}).text(f"a {around(name)} b") == f"a {wanted} b"
    written = json.dumps({"x": f"a {around(name)}\n"})
    assert Mask({}).text(written) == json.dumps({"x": f"a {wanted}\n"})


@pytest.mark.parametrize("size", [1, 3, 64])
def test_a_shape_in_pieces_is_masked(size):
    text = "".join(f"{name}: {around(name)}\n" for name in SHAPES).encode()
    heard: list[bytes] = []
    stream = MaskedStream(Mask({}), heard.append)
    for start in range(0, len(text), size):
        stream.write(text[start : start + size])
    stream.flush()
    assert b"".join(heard) == Mask({}).data(text)
    for name, value in SHAPES.items():
        assert value.encode() not in b"".join(heard), name


@pytest.mark.parametrize(
    "text",
    [
        "see https://example.org/a:b@c and git@github.com:me/x.git, ssh://git@host:22/x",
        "class sk-loading-spinner-container, eyJ, AKIA, ghp_short, the glpat- prefix",
        "'-----BEGIN PRIVATE KEY-----' and then '-----END PRIVATE KEY-----'",
        '{"a": "-----BEGIN PRIVATE KEY-----", "b": {"c": "-----END PRIVATE KEY-----"}}',
        "postgresql://user:$PASSWORD@host/x and https://{user}:{password}@host",
    ],
)
def test_what_only_looks_like_a_shape_is_left_alone(text):
    assert Mask({}).text(text) == text


@pytest.fixture
def mask() -> Mask:
    return Mask({**KINDS, "PATH": "/usr/bin", "HOME": "/home/me", "LANG": "C.UTF-8"})


def written(value: str) -> dict[str, str]:
    """The ways in which programs print a value."""
    data = value.encode()
    found = {
        "plain": value,
        "in JSON": json.dumps({"x": value}),
        "in JSON without escapes": json.dumps({"x": value}, ensure_ascii=False),
        "in a URL": "https://host/?x=" + urllib.parse.quote(value, safe=""),
        "in a form": urllib.parse.urlencode({"x": value}),
    }
    if len(data) >= 12:
        found |= {
            "base64": base64.b64encode(data).decode(),
            "base64 of a pair": base64.b64encode(b"user:" + data).decode(),
            "base64 within": base64.b64encode(b"ab" + data + b"yz").decode(),
            "base64 for URLs": base64.urlsafe_b64encode(b"a" + data).decode(),
            "hexadecimal": data.hex(),
        }
    return found


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_masked_in_every_form(mask, name):
    value = PARTS.get(name, KINDS[name])
    core = value.strip()[4:-4] if len(value) > 16 else value
    for form, text in written(value).items():
        hidden = mask.text(f"before {text} after")
        assert f"[{name} masked]" in hidden, form
        assert core not in hidden, form
        assert hidden.startswith("before "), form
        assert hidden.endswith(" after"), form


def test_a_line_of_a_key_counts_alone(mask):
    assert mask.text(KEY.split("\n")[1]) == "[DEPLOY_PRIVATE_KEY masked]"
    assert mask.text("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_a_secret_in_pieces_is_masked(mask, size):
    text = " ".join(f"{name}={value}" for name, value in KINDS.items()).encode()
    heard: list[bytes] = []
    stream = MaskedStream(mask, heard.append)
    for start in range(0, len(text), size):
        stream.write(text[start : start + size])
    stream.flush()
    assert b"".join(heard) == mask.data(text)
    for name, value in KINDS.items():
        assert PARTS.get(name, value).encode() not in b"".join(heard), name


def test_a_stream_passes_on_at_once_what_begins_no_secret(mask):
    heard: list[bytes] = []
    stream = MaskedStream(mask, heard.append)
    stream.write(b"a line\n")
    assert b"".join(heard) == b"a line\n"


def test_a_secret_that_another_form_begins_within_is_not_cut():
    mask = Mask({"A_TOKEN": "xxabcabc", "B_TOKEN": "abcdefgh"})
    heard: list[bytes] = []
    stream = MaskedStream(mask, heard.append)
    for piece in (b"xxabca", b"bcd", b"!"):
        stream.write(piece)
    stream.flush()
    assert b"".join(heard) == b"[A_TOKEN masked]d!"


@pytest.mark.parametrize(
    "name",
    [
        *("PWD", "OLDPWD", "PATH", "HOME", "SSH_AUTH_SOCK", "GOOGLE_CREDENTIALS_FILE", "KEY_ID"),
        *("MAX_THINKING_TOKENS", "TOKENIZERS_PARALLELISM", "EDITOR", "MONKEY", "AUTHOR", "XDG_DIR"),
    ],
)
def test_names_that_only_look_secret_are_not(name):
    assert not secrets.is_secret(name)
    assert Mask({name: "a long value"}).text("a long value") == "a long value"


def test_short_values_and_plain_words_are_left_alone():
    mask = Mask({"A_TOKEN": "abc", "B_TOKEN": "disabled", "C_TOKEN": ""})
    assert mask.text("abc disabled") == "abc disabled"
