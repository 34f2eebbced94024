"""Every page can be found, every link and every mention of a page leads to one."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = [*FRONT, *sorted(DOCS.rglob("*.md"))]
#: Sources and messages that name pages.
SOURCES = ("src", "scripts", "bench", "tugplug", "clients", "tests/proof", "tests/project")
LINK = re.compile(r"\]\(([\w./-]*)(?:#([\w-]+))?\)")
MENTION = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")
HEADING = re.compile(r"(?m)^#+ (.+)$")
#: Links in examples are examples.
CODE = re.compile(r"`[^`\n]+`")
FENCE = re.compile(r"(?ms)^```.*?^```$")


def anchors(page: Path) -> set[str]:
    """The fragments by which a page's headings are reached, as code hosts make them."""
    text = FENCE.sub("", page.read_text())
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(text)
    }


def dead(page: Path, text: str) -> Iterator[str]:
    """The links of a text that lead nowhere."""
    for target, fragment in LINK.findall(CODE.sub("", text)):
        there = page.parent / target if target else page
        if not there.exists() or (fragment and fragment not in anchors(there)):
            yield f"{page.relative_to(ROOT)}: {target}#{fragment}"


def lost(text: str) -> Iterator[str]:
    """The pages that a source mentions and that do not exist."""
    for mention in MENTION.findall(text):
        name, _, fragment = mention.partition("#")
        there = ROOT / name
        if not there.exists() or (fragment and fragment not in anchors(there)):
            yield mention


def test_no_link_is_dead():
    assert [each for page in PAGES for each in dead(page, page.read_text())] == []


def test_a_dead_link_is_noticed():
    text = "[a](docs/none.md) [b](docs/internals/architecture.md#none) [c](#none) [d](LICENSE)"
    assert len(list(dead(ROOT / "README.md", text))) == 3


def test_every_page_that_sources_and_messages_mention_exists():
    files = [path for top in SOURCES for path in (ROOT / top).rglob("*.*")]
    read = [path for path in files if path.suffix in {".py", ".md", ".json"}]
    assert len(read) > 200
    found = {path: list(lost(path.read_text())) for path in read if path != Path(__file__)}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_mention_of_a_page_that_is_gone_is_noticed():
    text = "see docs/none.md, docs/reference/git.md#conflicts and docs/reference/git.md#none"
    assert list(lost(text)) == ["docs/none.md", "docs/reference/git.md#none"]


def words(page: Path) -> int:
    """How many words a page has, examples and what they print included."""
    return len(page.read_text().split())


def test_pages_for_beginners_and_users_are_short():
    pages = [*DOCS.glob("start/*.md"), *DOCS.glob("use/*.md")]
    assert len(pages) > 10
    assert {page.name: words(page) for page in pages if words(page) > 1200} == {}


def test_the_index_lists_every_page():
    index = DOCS / "README.md"
    listed = {(DOCS / target).resolve() for target, _ in LINK.findall(index.read_text())}
    assert {*DOCS.rglob("*.md")} - {index} <= listed


def test_the_comparison_says_what_the_benchmark_found():
    found = json.loads((ROOT / "bench" / "results" / "peers.json").read_text())
    (race,) = [
        table for table in found["tables"] if table["columns"][-1] == "rounds with one owner"
    ]
    won = {row[0]: row[-1].replace("/", " of ") for row in race["rows"]}
    page = (DOCS / "use" / "compare.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("| twelve processes")]
    tools = ("backlog.md", "dex", "task-master-ai", "taskmd", "huey", "litequeue", "persist-queue")
    assert re.findall(r"\d+ of \d+", line) == [won["tugcode"], *(won[tool] for tool in tools)]


#: Written from the sources of the commands and of the benchmarks.
GENERATED = {DOCS / "reference" / "commands.md", DOCS / "internals" / "performance.md"}


def test_the_pages_name_the_actor():
    pages = {page: page.read_text() for page in PAGES if page.name != "CHANGELOG.md"}
    found = [page for page, text in pages.items() if re.search(r"\b[Ww]hoever\b", text)]
    assert {*found} - GENERATED == set()
