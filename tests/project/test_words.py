"""Plain English in the source: banned words in docstrings, comments, strings and pages.

Each sentence names its actor, says "is not an X", and a docstring says what a function does or
returns.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The directories and pages whose words are checked, from the root of the project.
ROOMS = (
    *("bench", "docs", "examples", "scripts", "src/tugtool", "tugplug"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "README.md"),
)
PAGES = (".md", ".json")
BANNED = {
    "whoever": re.compile(r"\bwhoever\b", re.IGNORECASE),
    "somebody": re.compile(r"\bsomebody\b", re.IGNORECASE),
    # "There is no X" and "is no longer" are plain.
    "is no": re.compile(r"(?<!\bthere )\bis no (?!longer\b)", re.IGNORECASE),
}
#: Its sentences were measured with models, word for word.
MEASURED = ROOT / "src/tugtool/server/mcp/tools.json"
OPENING = re.compile(r"(?:What|Whether|Who|Whose)\b")


def complaints(path: Path) -> Iterator[str]:
    """Every banned word in one file, with its line."""
    text = path.read_text()
    tree = ast.parse(text) if path.suffix == ".py" else None
    texts = enumerate(text.splitlines(), 1) if tree is None else _in_python(text, tree)
    for line, words in texts:
        for name in _banned(words):
            yield f"{path}:{line} has {name!r}"
    for line, words in [] if tree is None else _docstrings(tree):
        if found := OPENING.match(words):
            yield f"{path}:{line} begins a docstring with {found[0]!r}"


def _banned(words: str) -> list[str]:
    plain = " ".join(words.split())
    return [name for name, pattern in BANNED.items() if pattern.search(plain)]


def _in_python(source: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Comments and strings, docstrings included, each with its line."""
    # To find comments takes long: only where a line has such words behind its first `#`.
    if any(_banned(line.partition("#")[2]) for line in source.splitlines() if "#" in line):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and (words := ast.get_docstring(node)):
            yield node.body[0].lineno, words


def _files(room: str) -> list[Path]:
    place = ROOT / room
    found = place.rglob("*") if place.is_dir() else [place]
    return sorted(path for path in found if path.suffix in (".py", *PAGES) and path != MEASURED)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_no_banned_words(room):
    files = _files(room)
    assert files
    assert [each for file in files for each in complaints(file)] == []


@pytest.mark.parametrize(
    ("name", "planted", "complaint"),
    [
        ("x.py", "x = 1  # Whoever asks waits.\n", ":1 has 'whoever'"),
        ("x.py", 'x = f"{1} is held by somebody"\n', ":1 has 'somebody'"),
        ("x.py", 'x = (\n    "the text is "\n    "no JSON"\n)\n', ":2 has 'is no'"),
        ("x.py", 'def f():\n    """Whether it is."""\n', ":2 begins a docstring with 'Whether'"),
        ("x.py", '"""What is known."""\n', ":1 begins a docstring with 'What'"),
        ("x.py", 'class X:\n    """Who calls."""\n', ":2 begins a docstring with 'Who'"),
        ("x.md", "# Page\n\nThe answer is no object.\n", ":3 has 'is no'"),
    ],
)
def test_a_planted_word_is_found(tmp_path, name, planted, complaint):
    path = tmp_path / name
    path.write_text(planted)
    assert list(complaints(path)) == [f"{path}{complaint}"]


def test_plain_words_are_free(tmp_path):
    path = tmp_path / "x.py"
    path.write_text('"""Return None if there is no file, or it is no longer read."""\n')
    assert list(complaints(path)) == []
