"""Texts of any size in the shapes that make a careless parser slow.

Each shape takes a size in characters and gives a text of about that size; the tests count
the parser's work on them, and `bench/parser.py` takes the time.
"""

from collections.abc import Callable
from itertools import count

STEP = """#### Step {n}: Carry load {n} {{#step-{n}}}

**Depends on:** #step-{before}

**References:** [D01] Ropes, (#context, #step-{before})

**Tasks:**
- [ ] Lift the load with `crane {n}`
      and set it down gently
- [x] Tie it <down>

**Tests:**
- [ ] It holds

**Checkpoint:**
- [ ] `check {n}` passes

**Commit:** `feat: load {n}`

"""


def _numbered(form: str, size: int) -> str:
    """`form` with n and n - 1 filled in, again and again."""
    parts, length = [], 0
    for n in count(1):
        if length >= size:
            return "".join(parts)
        parts.append(form.format(n=n, before=n - 1))
        length += len(parts[-1])
    raise AssertionError("count() does not end")


def numbered(form: str) -> Callable[[int], str]:
    """A shape of many alike parts with numbers in them."""
    return lambda size: "#### Step 0: Begin\n" + _numbered(form, size)


def repeated(part: str, *, before: str = "", after: str = "") -> Callable[[int], str]:
    """A shape that is one part many times over."""
    return lambda size: before + part * (size // len(part)) + after


def nested_lists(size: int) -> str:
    """Boxes ever deeper, then from the left again."""
    lines, length, depth = [], 0, 0
    while length < size:
        lines.append("  " * (depth % 40) + "- [ ] deeper\n")
        length += len(lines[-1])
        depth += 1
    return "#### Step 1: Nest\n" + "".join(lines)


def ticks(size: int) -> str:
    """Runs of backticks, no two of the same length, so that none closes another."""
    runs, length = [], 0
    for n in count(1):
        if length >= size:
            return "#### Step 1: Ticks\n<a " + " ".join(runs) + " <!-- {#x\n"
        runs.append("`" * n)
        length += n + 1
    raise AssertionError("count() does not end")


def cycle(size: int) -> str:
    """Every step waits for the one before, and the first for the last."""
    body = _numbered("#### Step {n}: x\n**Depends on:** #step-{before}\n", size)
    last = body.rsplit("#step-", 1)[1]
    return f"#### Step 0: x\n**Depends on:** #step-{last}" + body


def unknown_needs(size: int) -> str:
    """As many dependencies that do not exist as anchors that do."""
    return _numbered("#### Step {n}: x {{#stage-{n}}}\n**Depends on:** #step-{n}\n", size)


def alike_anchors(size: int) -> str:
    """Unknown dependencies with long names that are hard to tell from the known ones."""
    name = "ab" * 90
    form = f"#### Step {{n}}: x {{{{#{name}{{n}}}}}}\n**Depends on:** #{name}x{{n}}\n"
    return _numbered(form, size)


def long_anchor(size: int) -> str:
    """A step with a huge anchor that cites and needs thousands of things."""
    half = size // 2
    wants = " ".join(f"#no-{n} [D{n}]" for n in range(half // 16))
    head = "#### Step 1: x {#" + "a" * half + "}\n"
    return f"{head}**References:** {wants}\n**Depends on:** {wants}\n"


SHAPES: dict[str, Callable[[int], str]] = {
    "plain steps": numbered(STEP),
    "substeps": numbered("##### Step 0.{n}: x\n**Depends on:** #step-0-{before}\n- [ ] y\n"),
    "steps without anchor": repeated("### Step 1: x\n"),
    "items": repeated("- [ ] carry it\n", before="#### Step 1: x\n"),
    "continuations": repeated("  and on\n", before="#### Step 1: x\n- [ ] carry it\n"),
    "long paragraph": repeated("rope and sail, "),
    "long item": repeated("rope ", before="#### Step 1: x\n- [ ] "),
    "long heading": repeated("rope ", before="#### Step 1: "),
    "long lines": repeated("rope " * 400 + "\n", before="#### Step 1: x\n"),
    "nested lists": nested_lists,
    "markers in a line": repeated("- ", before="#### Step 1: x\n"),
    "lazy lines": repeated("- - - - x\nlazy\n"),
    "marker lines": repeated("- - - - - x\n"),
    "unclosed fence": repeated("#### Step 1: x\n", before="```\n"),
    "fence openings": repeated("``` a\nx\n~~~ b\n"),
    "fences in items": repeated("- a\n  ```\n  #### Step 1: x\n"),
    "unclosed comment": repeated("- [ ] x\n", before="#### Step 1: x\n<!-- \n"),
    "comments in a line": repeated("<!-- a --> b "),
    "comment openings": repeated("x <!-- y\n"),
    "comment openings in a line": repeated("<!-- ", before="x "),
    "comment openings apart": repeated("x <!-- y\n\n"),
    "comment openings, one end": repeated("x <!-- y\n", after="-->\n"),
    "anchors": numbered("### x {{#anchor-{n}}}\n"),
    "same anchor": repeated("### Step 1: x {#same}\n"),
    "anchors in a line": repeated("{#a} ", before="### "),
    "open braces": repeated("{#", before="### "),
    "backtick runs": ticks,
    "single backticks": repeated("` `` ", before="x <"),
    "labels": repeated("**Tests (a):**\n", before="#### Step 1: x\n"),
    "dependency labels": repeated("**Depends on:** #step-2\n", before="#### Step 1: x\n"),
    "unclosed labels": repeated("**Tests** (a\n", before="#### Step 1: x\n"),
    "label of parentheses": repeated("(", before="**Tests** "),
    "label of closed parentheses": repeated("(a)", before="**Tests** (", after=")"),
    "stars": repeated("*", before="#### Step 1: x\n"),
    "headings": repeated("# x #\n"),
    "hashes": repeated("# ", before="# "),
    "number of a step": repeated("1.", before="#### Step "),
    "letters of a step": repeated("a", before="#### Step "),
    "dashes of a step": repeated("-", before="#### Step 1 "),
    "spaces of a step": repeated(" ", before="#### Step 1", after="{#a}"),
    "steps without title": repeated("#### Step 1\n"),
    "tables": repeated("| Owner | me |\n", before="## x {#plan-metadata}\n"),
    "bars": repeated("|", before="## x {#plan-metadata}\n"),
    "decisions": numbered("#### [D{n}] x (DECIDED) {{#d{n}}}\n"),
    "status of a decision": repeated("(A", before="#### [D01] x "),
    "placeholders": repeated("<a> <", before="x "),
    "open placeholders": repeated("<a", before="x "),
    "citations": repeated("[D1", before="#### Step 1: x\n**References:** "),
    "needs in a line": repeated("#a-", before="#### Step 1: x\n**Depends on:** "),
    "range of spaces": repeated("#a" + " " * 150, before="#### Step 1: x\n**Depends on:** "),
    "cycle": cycle,
    "unknown needs": unknown_needs,
    "long alike anchors": alike_anchors,
    "long anchor": long_anchor,
    "spaces": repeated(" "),
    "tabs": repeated("\t", after="x"),
    "blank lines": repeated("\n"),
    "carriage returns": repeated("\r"),
    "NUL": repeated("\0"),
}
