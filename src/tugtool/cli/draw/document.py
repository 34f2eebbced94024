"""A document of lines, lists and tables, written as text, Markdown or HTML.

Each format escapes every piece of text in one place (`said`, `_md`, `_html`), so the text of a plan
or an agent cannot control a terminal, become Markdown, or become an HTML element.
"""

from __future__ import annotations

from typing import NamedTuple

from tugtool.cli.draw.canvas import FIRM, cells
from tugtool.cli.output import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tugtool.cli.draw.canvas import Canvas

    #: A style of _TERMINAL and a text of any content.
    Span = tuple[str, str]
    Line = Sequence[Span]


class Table(NamedTuple):
    """Rows under a heading; in text a row is its first `lead` cells, then facts."""

    head: Sequence[str]
    rows: Sequence[Sequence[Line]]
    lead: int


class Listing(NamedTuple):
    """Entries, each with lines that belong to it."""

    entries: Sequence[tuple[Line, Sequence[Line]]]


class Section(NamedTuple):
    """A heading with its paragraphs, tables and lists."""

    title: str
    blocks: Sequence[Line | Table | Listing]
    #: True if the section is folded away, in formats that can.
    folded: bool = False


class Document(NamedTuple):
    """A title for some formats, summary lines, sections, and closing lines."""

    title: str
    head: Sequence[Line]
    sections: Sequence[Section]
    foot: Sequence[Line]


#: Kind of text -> its style on a terminal. `code`: a command or a name in the plan; `hash`: a
#: commit; `type`: a command for the user; `you`: a person has to act.
_TERMINAL = {
    "code": "",
    "hash": "",
    "type": "bold",
    "bold": "bold",
    "dim": "dim",
    "done": "done",
    "work": "work",
    "you": "you",
    "wrong": "wrong",
}


#: Signs, by the names that a canvas has for them.
_GLYPHS = {"✓": "completed", "→": "work", "○": "ready", "·": "waits", "‖": "parked"}
_LITERAL = ("code", "hash", "type")
#: Shorter facts are not folded on a terminal.
_SHORT = 24
#: A longer first cell does not widen its column.
#: A narrower terminal gets no columns.
_LONGEST_FIRST, _NARROW = 20, 60


def literal(text: str) -> list[Span]:
    """The spans of a text in which backticks mark code, as plans write it."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return [("", text)]
    return [("code" if place % 2 else "", part) for place, part in enumerate(parts) if part]


def write_text(canvas: Canvas, document: Document) -> None:
    """Draw the document for a terminal, folded at its width."""
    for line in document.head:
        canvas.write(*_spans(canvas, line), hang=2)
    for section in document.sections:
        canvas.write()
        canvas.write(("bold", canvas.said(section.title)), hang=2)
        for block in section.blocks:
            _write_block(canvas, block)
    canvas.write()
    for line in document.foot:
        canvas.write(*_spans(canvas, line), hang=2)


def _write_block(canvas: Canvas, block: Line | Table | Listing) -> None:
    if isinstance(block, Table):
        first = max((_length(_spans(canvas, row[0])) for row in block.rows), default=0)
        for row in block.rows:
            _write_row(canvas, row, block.lead, min(first, _LONGEST_FIRST))
    elif isinstance(block, Listing):
        for line, below in block.entries:
            canvas.write(("", "  "), *_spans(canvas, line), hang=4)
            for each in below:
                if [style for style, _ in each] == ["type"]:
                    canvas.command(("", "    "), canvas.said(each[0][1]))
                    continue
                canvas.write(("", "    "), *_spans(canvas, each), hang=6)
    else:
        canvas.write(("", "  "), *_spans(canvas, block), hang=2)


def _write_row(canvas: Canvas, row: Sequence[Line], lead: int, first: int) -> None:
    """Write a row on one line; if it is too long, the facts go on the next."""
    spans: list[Span] = [("", "  ")]
    for place, cell in enumerate(row[:lead]):
        found = _spans(canvas, cell)
        pad = 0 if place else max(0, first - _length(found))
        spans += [*found, ("", " " * pad + "  ")] if found else []
    facts: list[Span] = []
    for cell in row[lead:]:
        if any(text for _, text in cell):
            facts += [("dim", canvas.glyphs.dot)] if facts else []
            facts += [(style, _unfolded(text)) for style, text in _spans(canvas, cell)]
    # A narrow terminal has no room for the indent.
    hang = min(first + 4, canvas.width // 2 if canvas.width >= _NARROW else 6)
    if not facts or _length(spans) + _length(facts) <= canvas.width:
        canvas.write(*spans, *facts, hang=hang)
        return
    canvas.write(*spans[:-1], hang=hang)
    canvas.write(("", " " * hang), *facts, hang=hang)


def _length(spans: Iterable[Span]) -> int:
    return sum(cells(text) for _, text in spans)


def _unfolded(text: str) -> str:
    return text.replace(" ", FIRM) if text == text.strip() and len(text) <= _SHORT else text


def _spans(canvas: Canvas, line: Line) -> list[Span]:
    """The spans of a line for a terminal: safe text in the styles of the canvas."""
    return [(_TERMINAL.get(style, ""), _said(canvas, style, text)) for style, text in line if text]


def _said(canvas: Canvas, style: str, text: str) -> str:
    if text in _GLYPHS:
        # The canvas may have other signs.
        return str(getattr(canvas.glyphs, _GLYPHS[text]))
    said = canvas.said(text)
    if style == "type" and cells(said) <= canvas.width - 8:
        # Keep a command on one line, so that it can be copied.
        return said.replace(" ", FIRM)
    return f"`{said}`" if style == "code" else said


#: Characters with a meaning anywhere in a line of Markdown; a backslash escapes each.
_SPECIAL = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>&|~#"})
#: GitHub turns these into mentions, references, links or formulas, and a backslash does not
#: help: a zero-width space goes behind the first character.
_NO_WIDTH = "\u200b"
_BEGINNINGS = r"(?i)[@#](?=\S)|:(?=//)|w(?=ww\.)|g(?=h-)|(?:mailto|xmpp)(?=:)"
_DOLLAR = "<span>$</span>"


def write_markdown(document: Document) -> str:
    """The document as GitHub Markdown."""
    parts = [_md_list([(line, ()) for line in document.head])]
    for section in document.sections:
        inner = [_md_block(block) for block in section.blocks]
        title = _md([("", section.title)])
        if section.folded:
            # After a blank line, Markdown works inside the element.
            title = f"<details><summary>{title}</summary>"
            parts += [title, *inner, "</details>"]
        else:
            parts += [f"### {title}", *inner]
    parts += ["---", *(_md(line) for line in document.foot)]
    return "\n\n".join(parts) + "\n"


def _md_block(block: Line | Table | Listing) -> str:
    if isinstance(block, Table):
        rule = "|".join("---" for _ in block.head)
        rows = [" | ".join(_md(cell, in_table=True) for cell in row) for row in block.rows]
        head = " | ".join(_md([("", name)]) for name in block.head)
        return "\n".join(f"| {row} |" for row in (head, rule, *rows))
    if isinstance(block, Listing):
        return _md_list(block.entries)
    return _md(block)


def _md_list(entries: Iterable[tuple[Line, Sequence[Line]]]) -> str:
    lines = []
    for line, below in entries:
        lines.append(f"- {_md(line)}")
        lines += [f"  - {_md(each)}" for each in below]
    return "\n".join(lines)


def _md(line: Line, *, in_table: bool = False) -> str:
    """A line of Markdown that shows these texts unchanged."""
    parts = []
    for style, text in line:
        words = clean(text)
        if style in _LITERAL:
            parts.append(_md_code(words, in_table=in_table))
        elif style == "bold" and words.strip():
            parts.append(f"**{_md_text(words.strip())}**")
        else:
            parts.append(_md_text(words))
    joined = "".join(parts).strip()
    return joined or ("" if in_table else "\\-")


def _md_text(text: str) -> str:
    import re

    broken = re.sub(_BEGINNINGS, lambda found: found[0] + _NO_WIDTH, text)
    text = broken.translate(_SPECIAL).replace("$", _DOLLAR)
    bare = text.lstrip()
    number = len(bare) - len(bare.lstrip("0123456789"))
    if bare[:1] in ("-", "+", "=") or (number and bare[number : number + 1] in (".", ")")):
        # At the front of a line it would start a list or make a heading.
        front = text[: len(text) - len(bare)]
        return f"{front}{bare[:number]}\\{bare[number:]}"
    return text


def _md_code(text: str, *, in_table: bool) -> str:
    if not set(text) & set("`\\") and text.strip() == text and text:
        # In a table, a backslash keeps a pipe from ending the cell, also within code.
        escaped = text.replace("|", "\\|") if in_table else text
        return f"`{escaped}`"
    # Neither a table nor a run of backticks can end an element.
    marks = (mark if mark.isalnum() else f"&#{ord(mark)};" for mark in text)
    return f"<code>{''.join(marks)}</code>"


_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
{head}
</header>
{sections}
<footer>
{foot}
</footer>
</main>
</body>
</html>
"""
#: Every pair of colours has a contrast of at least 4.5 to 1.
_STYLE = """
:root{--page:#fff;--text:#1c2128;--soft:#57606a;--line:#d0d7de;--card:#f6f8fa;--done:#116329;
--work:#0550ae;--you:#7d4e00;--wrong:#a40e26}
@media (prefers-color-scheme:dark){:root{--page:#14181d;--text:#e6edf3;--soft:#a0a9b4;
--line:#353c45;--card:#1e242b;--done:#57d06f;--work:#79b8ff;--you:#e8b23f;--wrong:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif}
main{max-width:74rem;margin:0 auto;padding:1.5rem 1.25rem 3rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .75rem}
h2{font-size:1.15rem;margin:2rem 0 .5rem}
p{margin:.4rem 0;overflow-wrap:anywhere}
header p{margin:0;padding:.6rem 1rem;background:var(--card);border-left:.25rem solid var(--line)}
header p:first-of-type{padding-top:.9rem;border-radius:0 .5rem 0 0}
header p:last-of-type{padding-bottom:.9rem;border-radius:0 0 .5rem 0}
table{border-collapse:collapse;width:100%;font-size:.94rem}
th,td{text-align:left;vertical-align:top;padding:.4rem .9rem .4rem 0;
border-bottom:1px solid var(--line);overflow-wrap:anywhere}
th{color:var(--soft);font-weight:600;white-space:nowrap}
ul{margin:.4rem 0;padding-left:1.2rem}
li{margin:.3rem 0;overflow-wrap:anywhere}
li ul{color:var(--soft);font-size:.94rem}
code{font:.9em ui-monospace,monospace;background:var(--card);padding:.1em .35em;
border-radius:.25rem;overflow-wrap:anywhere}
code.hash{white-space:nowrap}
td:first-child{min-width:6.5rem}td[data-name="By"]{min-width:11.5rem}
td[data-name="Used"]{min-width:9.5rem}
td:nth-child(2):not([data-name]){min-width:10rem}
code.type{border:1px solid var(--line)}
.dim{color:var(--soft)}.done{color:var(--done)}.work{color:var(--work)}.you{color:var(--you)}
.wrong{color:var(--wrong)}
summary{cursor:pointer;font-size:1.15rem;font-weight:600;margin:2rem 0 .5rem}
footer{margin-top:2.5rem;padding-top:.75rem;border-top:1px solid var(--line);color:var(--soft);
font-size:.9rem}
@media (max-width:40rem){main{padding:1rem .9rem 2rem}h1{font-size:1.35rem}thead{display:none}
table,tbody,tr{display:block}tr{padding:.6rem 0;border-bottom:1px solid var(--line)}
td{display:block;border:0;padding:.1rem 0}td:empty{display:none}
td[data-name]{display:inline-block;margin-right:1rem;min-width:0!important}
td[data-name]::before{content:attr(data-name) " ";color:var(--soft)}}
@media print{:root{--page:#fff;--text:#000;--soft:#444;--line:#bbb;--card:#fff;--done:#000;
--work:#000;--you:#000;--wrong:#000}main{max-width:none;padding:0}
tr,li{break-inside:avoid}h2,summary{break-after:avoid}details::details-content{content-visibility:visible}}
"""


def write_html(document: Document) -> str:
    """One page without scripts, links or external content."""
    sections = []
    for section in document.sections:
        inner = "\n".join(_html_block(block) for block in section.blocks)
        title = _html([("", section.title)])
        if section.folded:
            sections.append(f"<details>\n<summary>{title}</summary>\n{inner}\n</details>")
        else:
            sections.append(f"<section>\n<h2>{title}</h2>\n{inner}\n</section>")
    return _PAGE.format(
        title=_html([("", document.title)]),
        style=_STYLE,
        head="\n".join(f"<p>{_html(line)}</p>" for line in document.head),
        sections="\n".join(sections),
        foot="\n".join(f"<p>{_html(line)}</p>" for line in document.foot),
    )


def _html_block(block: Line | Table | Listing) -> str:
    if isinstance(block, Table):
        head = "".join(f"<th>{_html([('', name)])}</th>" for name in block.head)
        rows = "\n".join(_html_row(row, block) for row in block.rows)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    if isinstance(block, Listing):
        return _html_list([(_html(line), below) for line, below in block.entries])
    return f"<p>{_html(block)}</p>"


def _html_row(row: Sequence[Line], table: Table) -> str:
    """A row; on a phone each fact has its own line, with its name."""
    cells = []
    for place, cell in enumerate(row):
        name = f' data-name="{table.head[place]}"' if place >= table.lead else ""
        cells.append(f"<td{name}>{_html(cell)}</td>" if any(t for _, t in cell) else "<td></td>")
    return f"<tr>{''.join(cells)}</tr>"


def _html_list(entries: Iterable[tuple[str, Sequence[Line]]]) -> str:
    items = []
    for text, below in entries:
        inner = "".join(f"<li>{_html(each)}</li>" for each in below)
        items.append(f"<li>{text}{f'<ul>{inner}</ul>' if inner else ''}</li>")
    return "<ul>\n{}\n</ul>".format("\n".join(items))


def _html(line: Line) -> str:
    """Text as HTML, with its styles as classes."""
    from html import escape

    parts = []
    for style, text in line:
        words = escape(clean(text))
        if style in _LITERAL:
            parts.append(f'<code class="{style}">{words}</code>')
        elif style == "bold":
            parts.append(f"<strong>{words}</strong>")
        else:
            parts.append(f'<span class="{style}">{words}</span>' if style else words)
    return "".join(parts)
