"""The files of the page: what is vendored, how large all is, its colours, its words.

The colours are computed, not eyed: contrast as in WCAG 2.2, and how far apart two standings are
(OKLab times 100) for each kind of colour vision.
"""

import gzip
import hashlib
import itertools
import math
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.state import KEY
from tugtool.cli.draw.canvas import Canvas
from tugtool.cli.draw.plan import _BOXES, sign_of
from tugtool.cli.draw.status import NEEDS
from tugtool.server import deck, words
from tugtool.state.standings import STANDINGS

PAGE = Path(deck.FILES)
ROOT = Path(__file__).parents[2]
OWN = sorted(PAGE.glob("*.js"))
MOST_BYTES, MOST_LINES = 80_000, 300
#: What the packages published.
PUBLISHED = {
    "preact.mjs": "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55",
    "htm.mjs": "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4",
    "preact.LICENSE": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
    "htm.LICENSE": "740725f7252e750af735d0028cc534970772f513331e9f68150fede8fb3ce00f",
}


def served_files() -> list[Path]:
    return [each for each in PAGE.rglob("*") if each.suffix in deck._TYPES]


# -- files ---------------------------------------------------------------------------------


def test_vendored_files_are_those_of_their_packages():
    listed = (PAGE / "vendor" / "README.md").read_text()
    found = {each.name for each in (PAGE / "vendor").iterdir()} - {"README.md"}
    assert found == {*PUBLISHED}
    for name, hash in PUBLISHED.items():
        assert hashlib.sha256((PAGE / "vendor" / name).read_bytes()).hexdigest() == hash
        assert f"| `{name}` |" in listed
        assert hash in listed


def test_all_files_together_are_small():
    sizes = [len(gzip.compress(each.read_bytes(), 9, mtime=0)) for each in served_files()]
    assert 50_000 < sum(sizes) <= MOST_BYTES


@pytest.mark.parametrize("module", OWN, ids=lambda each: each.name)
def test_a_module_is_short_and_says_what_it_is_about(module):
    lines = module.read_text().splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[0].startswith("// ")


def wrongs(name: str, text: str) -> list[str]:
    """What no file of the page may have: other origins, inline styles, HTML from text."""
    never = {
        "another origin": r"""(?:https?:|wss?:|["'(])//|@import""",
        "an inline style": r"\sstyle=|\.setAttribute\(.style",
        "HTML from text": r"\b(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write|DOMParser",
        "code from text": r"\beval\(|new Function\(|setTimeout\(.?[\"']",
        "an inline handler": r"\son[a-z]+=[\"']",
        "a cookie": r"document\.cookie",
    }
    text = text.replace("http://www.w3.org/2000/svg", "")
    return [f"{name}: {what}" for what, form in never.items() if re.search(form, text)]


def test_no_file_names_another_origin_or_makes_html_from_text():
    own = [*OWN, *PAGE.glob("*.css"), *PAGE.glob("*.html"), *PAGE.glob("*.svg")]
    assert [wrong for each in own for wrong in wrongs(each.name, each.read_text())] == []
    for planted in (
        'fetch("https://x")',
        "@import url(x)",
        "<p style=x>",
        "a.innerHTML = b",
        'eval("1")',
    ):
        assert wrongs("planted", planted)


def test_every_import_is_a_file_and_every_module_is_imported():
    names = {each.name for each in OWN}
    imported = {"app.js"}
    for each in OWN:
        for name in re.findall(r'from "\./([^"]+)"', each.read_text()):
            assert (PAGE / name).is_file(), f"{each.name} imports {name}"
            imported.add(name)
    assert names <= imported
    index = (PAGE / "index.html").read_text()
    asked = re.findall(r'(?:src|href)="(/[^"]+)"', index)
    assert asked
    assert [path for path in asked if deck.Page().find(path) is None] == []
    assert "<script>" not in index
    assert "<style" not in index


def joined_faults(files: dict[str, bytes]) -> list[str]:
    """What the joined module lacks, or must not have."""
    found = deck.joined(files)
    text = found[deck.JOINED].decode()
    outside = re.findall(r"(?m)^(?:import|export)\b.*|[;}]export\b.{20}", text)
    faults = [each for each in outside if each != "export const all = {};"]
    for path in files:
        made, used = text.find(f'all["{path}"] = ('), text.find(f'= all["{path}"];')
        if made < 0 or 0 <= used < made:
            faults.append(f"{path} is not there, or too late")
    return faults


def test_the_browser_asks_for_one_script_which_has_every_module():
    index = (PAGE / "index.html").read_text()
    assert re.findall(r"<script[^>]*>", index) == ['<script type="module" src="/deck.js">']
    files = {
        f"/{each.relative_to(PAGE)}": each.read_bytes()
        for each in (*OWN, *PAGE.glob("vendor/*.mjs"))
    }
    assert joined_faults(files) == []
    page = deck.Page()
    for path, body in files.items():
        served = page.find(path)
        assert served is not None
        if path.startswith("/vendor/"):
            assert served.body == body
        else:
            assert len(served.body) < 400
    # A form that joining does not know, and a module that nothing needs.
    assert joined_faults({**files, "/api.js": b"export let late;\n"})
    assert joined_faults({**files, "/alone.js": b"export const alone = 1;\n"})


def test_git_knows_every_file_so_that_a_wheel_has_it():
    ask = ["git", "check-ignore", "--no-index", "--stdin"]
    names = "\n".join(str(each) for each in PAGE.rglob("*"))
    done = subprocess.run(ask, input=names, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.proof(share=0)
def test_the_wheel_has_every_file_of_the_page(tmp_path):
    build = [sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = zipfile.ZipFile(wheel)
    there = {name for name in packed.namelist() if name.startswith("tugtool/server/page/")}
    own = {str(each.relative_to(ROOT / "src")) for each in PAGE.rglob("*") if each.is_file()}
    assert there == own
    for name in there:
        body = packed.read(name)
        assert body == (ROOT / "src" / name).read_bytes()
        assert b"/work/" not in body


# -- colours -------------------------------------------------------------------------------

#: Standing -> its colour. A question has that of what is deferred: both wait for a person.
COLOURS = ("waits", "ready", "claimed", "work", "stale", "parked", "deferred", "completed")
#: Viénot 1999 for protan and deutan, a plane after Brettel for tritan; on linear RGB.
SIGHT = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.11238, 0.88762, 0), (0.11238, 0.88762, 0), (0.00401, -0.00401, 1)),
    "deutan": ((0.29275, 0.70725, 0), (0.29275, 0.70725, 0), (-0.02234, 0.02234, 1)),
    "tritan": ((1, 0.14461, -0.14461), (0, 0.85924, 0.14076), (0, 0.85924, 0.14076)),
}
RGB = tuple[float, ...]


def tokens(text: str) -> dict[str, dict[str, str]]:
    """Theme -> name -> colour, as the style sheet says."""
    blocks = re.findall(r"^( *)(:root[^{]*)\{([^}]*)\}", text, re.MULTILINE)
    found: dict[str, dict[str, str]] = {}
    for indent, selector, body in blocks:
        named = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", body))
        if not named:
            continue
        theme = "dark" if 'data-theme="dark"' in selector else "system" if indent else "light"
        found[theme] = named
    return found


def linear(colour: str) -> RGB:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return tuple(v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)


def contrast(one: str, other: str) -> float:
    weights = (0.2126, 0.7152, 0.0722)
    lights = [sum(w * v for w, v in zip(weights, linear(c), strict=True)) for c in (one, other)]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def seen(colour: str, sight: str) -> RGB:
    """The colour in OKLab, as somebody with this sight sees it."""
    own = linear(colour)
    r, g, b = (
        min(1, max(0, sum(m * v for m, v in zip(row, own, strict=True)))) for row in SIGHT[sight]
    )
    long, middle, short = (
        (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3),
        (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3),
        (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3),
    )
    return (
        0.2104542553 * long + 0.793617785 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.428592205 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.808675766 * short,
    )


def least_difference(colours: dict[str, str], sight: str) -> float:
    places = [seen(colours[name], sight) for name in COLOURS]
    return min(100 * math.dist(one, other) for one, other in itertools.combinations(places, 2))


THEMES = tokens((PAGE / "tokens.css").read_text())


def test_dark_is_the_same_whether_the_system_or_a_person_chose_it():
    assert THEMES["system"] == THEMES["dark"]
    assert THEMES["dark"].keys() == THEMES["light"].keys()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_lines_can_be_seen(theme):
    colours = THEMES[theme]
    grounds = [colours[name] for name in ("ground", "raised")]
    marked = [colours[name] for name in ("selected", "changed", "added", "removed")]
    for name in ("ink", "faint", "accent", *COLOURS):
        assert min(contrast(colours[name], ground) for ground in grounds) >= 4.5, name
    for name in COLOURS:
        assert min(contrast(colours[name], ground) for ground in marked[:2]) >= 4.5, name
    for name in ("ink", "faint"):
        assert min(contrast(colours[name], ground) for ground in marked) >= 4.5, name
    assert min(contrast(colours["edge"], ground) for ground in grounds) >= 3
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    assert contrast(colours["ground"], colours["parked"]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_two_standings_never_look_alike(theme, sight):
    assert least_difference(THEMES[theme], sight) >= 7


def test_colours_that_look_alike_are_noticed():
    planted = {**THEMES["light"], "parked": "#3a5200"}
    assert least_difference(planted, "deutan") < 7
    assert contrast("#888888", "#ffffff") < 4.5


def test_no_colour_is_outside_the_file_of_tokens():
    for name in ("deck.css", *(each.name for each in OWN)):
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\s])", (PAGE / name).read_text()) == []


# -- words ---------------------------------------------------------------------------------


def test_signs_words_and_boxes_are_those_of_the_terminal(served):
    app = served()
    data = app.get("words").data
    assert [*data["standings"]] == [*STANDINGS]
    for standing, shown in data["standings"].items():
        assert shown["sign"] == Canvas(80).sign(sign_of(standing))[1]
        assert shown["word"]
    assert {name: box for name, box in data["boxes"].items() if box != "[ ]"} == _BOXES
    assert data["needs"] == {name: list(said) for name, said in NEEDS.items()}
    assert data["root"] == str(app.root)


def test_every_action_of_the_page_is_a_path_with_its_fields(served):
    from tugtool.server import routes

    for action in served().get("words").data["actions"]:
        route = routes.ROUTES["POST", f"{routes.API}{action['path']}"]
        known = routes.fields(route)
        wanted = {*action["fields"], action["reason_field"], "plan"}
        assert wanted <= known.keys()
        assert (action["reason"] == "required") == ("{reason}" in action["command"])
        assert {*action["when"]} <= {*STANDINGS, "paused", "running", "waiting"}


def test_what_happened_since_an_event_is_counted_and_said(served):
    app = served("1 t", "2 c", "3 t")
    epoch = app.service.base.store and app.get("since").data["epoch"]
    before = app.get("since", {"epoch": epoch, "seq": 0}).data
    assert (before["known"], before["counts"]) == (True, [])
    app.post("state/claim", {"plan": "work", "worktree": "red"})
    done = {"plan": "work", "step": "step-1", "worktree": "red"}
    app.post("state/update", {**done, "task": [[0, "completed"]]})
    app.post("state/complete", done)
    app.post("state/claim", {"plan": "work", "worktree": "blue"})
    entry = {"kind": "checkpoint", "ordinal": 0, "status": "deferred", "reason": "eyes"}
    late = {"plan": "work", "step": "step-2", "worktree": "blue"}
    app.post("state/update", {**late, "entries": [entry]})
    app.post("state/release", {**late, "park": True, "reason": "no key"})
    after = app.get("since", {"epoch": epoch, "seq": before["seq"]}).data
    said = [each["words"] for each in after["counts"]]
    assert said == ["1 step completed", "1 parked", "1 item deferred"]
    assert app.get("since", {"epoch": epoch, "seq": after["seq"]}).data["events"] == 0
    other = app.get("since", {"epoch": "another", "seq": 1}).data
    assert (other["known"], other["counts"]) == (False, [])


def test_a_token_of_one_plan_learns_nothing_of_others(served):
    app = served()
    token, _ = app.tokens.add("eve", role="viewer", plan=KEY)
    assert app.get("since", token=token).code == "E101"
    assert app.get("since", {"seq": "x"}).status == 400


def test_the_text_comes_with_the_lines_that_have_a_state(served):
    app = served("1 tc", "1.1 e", "2 t < 1")
    data = app.get("plan/text", {"plan": "work"}).data
    lines = data["text"].split("\n")
    steps = {mark["anchor"]: lines[mark["line"] - 1] for mark in data["marks"] if not mark["kind"]}
    assert steps == {
        "step-1": "### Step 1: Part 1",
        "step-1-1": "#### Step 1.1: Part 1.1",
        "step-2": "### Step 2: Part 2",
    }
    items = [mark for mark in data["marks"] if mark["kind"]]
    assert all(lines[mark["line"] - 1].startswith("- [ ] ") for mark in items)
    assert [mark["kind"] for mark in items] == ["task", "checkpoint", "test", "task"]
    assert words.marks("") == []


def test_events_can_be_read_backwards_and_without_signs_of_life(served):
    app = served()
    app.post("state/claim", {"plan": "work", "worktree": "red"})
    app.post("state/heartbeat", {"plan": "work", "step": "step-1", "worktree": "red"})
    every = app.get("events", {"plan": "work"}).data
    assert [each["kind"] for each in every["events"]] == ["init", "claim", "heartbeat"]
    quiet = app.get("events", {"plan": "work", "quiet": "true"}).data
    assert [each["kind"] for each in quiet["events"]] == ["init", "claim"]
    last = app.get("events", {"plan": "work", "limit": 1}).data
    assert ([each["kind"] for each in last["events"]], last["more"]) == (["heartbeat"], True)
    seq = last["events"][0]["seq"]
    earlier = app.get("events", {"plan": "work", "before": seq, "limit": 5}).data
    assert [each["kind"] for each in earlier["events"]] == ["init", "claim"]
    chosen = app.get("events", {"plan": "work", "kind": "init,heartbeat"}).data
    assert [each["kind"] for each in chosen["events"]] == ["init", "heartbeat"]
