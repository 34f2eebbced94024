"""Write the types of all answers from their schemas.

    python scripts/answers.py [--check]

`src/tugtool/schemas/__init__.pyi` gets one TypedDict per object of `src/tugtool/schemas/*.json`, so
that mypy checks the code of an answer against the schema that tests check the answer against.
With `--check` nothing is written; exit status 1 if the file differs from the schemas.
"""

import json
import keyword
import re
import subprocess
import sys
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parent.parent / "src" / "tugtool" / "schemas"
FILE = SCHEMAS / "__init__.pyi"
HEAD = '''\
"""The types of all answers, one per object of the JSON schemas beside this file.

Written by scripts/answers.py from the schemas; `make docs` writes it anew. For annotations alone:
import it under TYPE_CHECKING, for there is nothing to load at run time.
"""

from typing import Any, Literal, NotRequired, TypedDict

class StepNames(TypedDict):
    """The names of a step in every answer about one."""

    step_anchor: str
    anchor: str

'''
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
#: The envelope is around every answer; code makes only its entries of `issues`.
ENVELOPE = "envelope"


class Writer:
    """The classes of one schema, the inner ones first."""

    def __init__(self, name: str, schema: dict, known: dict[str, str] | None = None) -> None:
        self.name, self.schema = name, schema
        self.classes: dict[str, str] = {}
        #: Equal objects, also of other schemas, are one type: fields -> the first name.
        self.known = {} if known is None else known

    def write(self) -> str:
        self.type_of(self.schema, self.name)
        return "".join(self.classes.values())

    def type_of(self, schema: dict, name: str) -> str:
        """Return the type of a value as text, and add the classes it needs."""
        if "$ref" in schema:
            return self.referred(schema["$ref"])
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        if "enum" in schema:
            return literal(schema["enum"])
        for word in ("oneOf", "anyOf"):
            if word in schema and "properties" not in schema:
                return " | ".join(
                    self.type_of(each, f"{name}{number or ''}")
                    for number, each in enumerate(schema[word])
                )
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return " | ".join(self.kind(kind, schema, name) for kind in kinds) or "Any"

    def kind(self, kind: str, schema: dict, name: str) -> str:
        if kind == "array":
            return f"list[{self.type_of(schema.get('items', {}), singular(name))}]"
        if kind != "object":
            return PLAIN[kind]
        if "properties" in schema:
            return self.record(schema, name)
        whole = re.search("the answer of `([a-z ]+)`", schema.get("description", ""))
        if whole:
            return camel(whole[1].replace(" ", "_"))
        values = schema.get("additionalProperties", {})
        inner = self.type_of(values, singular(name)) if isinstance(values, dict) else "Any"
        return f"dict[str, {inner}]"

    def record(self, schema: dict, name: str) -> str:
        """Return the name of a TypedDict for the object."""
        if name not in self.classes:
            self.classes[name] = ""  # A placeholder, in case it refers to itself.
            required = set(schema.get("required", ()))
            lines, words = [], []
            for field, inner in schema["properties"].items():
                kind = self.type_of(inner, name + camel(field))
                kind = kind if field in required else f"NotRequired[{kind}]"
                if keyword.iskeyword(field):
                    words.append(f"{field!r}: {kind}")
                else:
                    lines.append(f"    {field}: {kind}\n")
            text, base = "", "TypedDict"
            if words:
                # A class cannot have a keyword as a field.
                base = f"_{name}Words"
                text = f'\n\n{base} = TypedDict("{base}", {{{", ".join(words)}}})'
            text += f'\n\nclass {name}({base}):\n    """{sentence(schema)}"""\n\n{"".join(lines)}'
            same = self.known.setdefault("".join((*words, *lines)), name)
            del self.classes[name]
            self.classes[name] = text if same == name else f"\n\n{name} = {same}\n"
            return same
        return name

    def referred(self, path: str) -> str:
        place = self.schema
        for word in path.removeprefix("#/").split("/"):
            place = place[word]
        return self.type_of(place, self.name + camel(path.rpartition("/")[2]))


def literal(values: list) -> str:
    words = [repr(value) for value in values if value is not None]
    text = f"Literal[{', '.join(words)}]"
    return f"{text} | None" if None in values else text


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.replace("-", "_").split("_"))


def singular(name: str) -> str:
    """Return the name of one element: `Steps` -> `Step`."""
    for ending, one in (
        ("ies", "y"),
        ("sses", "ss"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("ss", "ss"),
        ("s", ""),
    ):
        if name.endswith(ending):
            return name.removesuffix(ending) + one
    return f"{name}Item"


def sentence(schema: dict) -> str:
    text = str(schema.get("description", "")).split("; ")[0].strip() or "An object."
    text = text[0].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


def written() -> str:
    """Return the whole file, formatted."""
    text, known = HEAD, {}
    for path in sorted(SCHEMAS.glob("*.json")):
        name, schema = camel(path.stem), json.loads(path.read_text())
        if path.stem == ENVELOPE:
            name, schema = "Issue", schema["properties"]["issues"]["items"]
        text += Writer(name, schema, known).write()
    ruff = Path(sys.executable).with_name("ruff")
    line = [str(ruff), "format", "--quiet", "--stdin-filename", str(FILE), "-"]
    done = subprocess.run(line, input=text, check=True, capture_output=True, text=True, cwd=SCHEMAS)
    return done.stdout


def main(words: list[str]) -> int:
    """Write the file, or say whether it is current."""
    text = written()
    if words == ["--check"]:
        current = FILE.exists() and FILE.read_text() == text
        if not current:
            print(f"{FILE.name} is not what the schemas say; make docs writes it anew")
        return 0 if current else 1
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
