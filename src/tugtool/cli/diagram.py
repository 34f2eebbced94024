"""The graph of a plan: as text for people, and in the languages of drawing programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tugtool import jsontext
from tugtool.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Data = Mapping[str, Any]

_LONGEST_TITLE = 60


def draw(data: Data, shape: str) -> str:
    """The graph in one of the shapes text, mermaid, dot, json."""
    if shape == "json":
        return jsontext.encode(data) + "\n"
    if shape == "text":
        return _text(data)
    lines = _mermaid(data) if shape == "mermaid" else _dot(data)
    return "".join(f"{line}\n" for line in lines)


def _text(data: Data) -> str:
    from tugtool.cli import render

    steps = {step["anchor"]: step for step in data["steps"]}
    critical = set(data["critical_path"])
    widest = data["widest_wave"]
    parts = [
        render.plain(
            f"{render.number(len(steps), 'step')} in {render.number(len(data['waves']), 'wave')}; "
            f"{_at_once(widest)}; * is on the critical path",
            "dim",
        )
    ]
    broadest = min(max(map(len, steps)), 30)
    for index, wave in enumerate(data["waves"], 1):
        for place, anchor in enumerate(wave):
            step = steps[anchor]
            head = f"wave {index}" if not place else ""
            mark = "*" if anchor in critical else " "
            behind = f"  <- {', '.join(step['needs'])}" if step["needs"] else ""
            title = output.clean(step["title"], _LONGEST_TITLE)
            said = f"{head:<9}{mark} {anchor:<{broadest}}  {title}{_remark(step)}{behind}"
            parts.append(render.folded(said, "bold" if anchor in critical else ""))
    parts.append(render.folded("critical path: " + " -> ".join(data["critical_path"])))
    return render.drawn(*parts)


def _at_once(widest: Data) -> str:
    if widest["steps"] == 1:
        return "one after the other"
    return f"at most {widest['steps']} at once, in wave {widest['wave']}"


def _remark(step: Data) -> str:
    remarks = [f"{step['substeps']} substeps"] if step["substeps"] else []
    remarks += ["verification only"] if step["verification_only"] else []
    return f" ({', '.join(remarks)})" if remarks else ""


def _mermaid(data: Data) -> Iterator[str]:
    yield "flowchart TD"
    critical = data["critical_path"]
    # Anchors are kebab-case, but mermaid has words of its own: n0, n1 ... are safe.
    names = {step["anchor"]: f"n{index}" for index, step in enumerate(data["steps"])}
    for step in data["steps"]:
        yield f'  {names[step["anchor"]]}["{_mermaid_text(step)}"]'
    for step in data["steps"]:
        for need in step["needs"]:
            yield f"  {names[need]} --> {names[step['anchor']]}"
    yield "  classDef critical stroke-width:3px"
    yield f"  class {','.join(names[anchor] for anchor in critical)} critical"


def _mermaid_text(step: Data) -> str:
    title = output.clean(f"{step['anchor']}: {step['title']}", _LONGEST_TITLE)
    # Mermaid reads #...; as an entity, and markup of HTML and Markdown as such.
    return "".join(c if c.isalnum() or c in " .,:-_()/" else f"#{ord(c)};" for c in title)


def _dot(data: Data) -> Iterator[str]:
    yield "digraph plan {"
    yield "  rankdir=TB;"
    yield "  node [shape=box, style=rounded];"
    critical = set(data["critical_path"])
    for step in data["steps"]:
        label = output.clean(f"{step['anchor']}: {step['title']}", _LONGEST_TITLE)
        wide = ", penwidth=3" if step["anchor"] in critical else ""
        yield f'  "{step["anchor"]}" [label="{_dot_text(label)}"{wide}];'
    for step in data["steps"]:
        for need in step["needs"]:
            yield f'  "{need}" -> "{step["anchor"]}";'
    yield "}"


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
