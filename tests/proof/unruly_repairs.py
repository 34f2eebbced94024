"""`tugcode` with a repair taken out: `python unruly_repairs.py LETTER WORD...`.

REPAIRS says what each repair consists of, so that the harness can be shown to notice when
it is missing.
"""

import importlib
import sys
from collections.abc import Callable

from tugtool.cli.main import main

ENFORCEMENT = "tugtool.implement.enforcement"
SNAPSHOT = "tugtool.implement.snapshot"

#: What a coder reported and the commit has not is named, which is a second net for lost work.
UNTOLD = (ENFORCEMENT, "tell_left_out", lambda *_: None)

#: Letter -> what to replace, as (module, name of the attribute, what to put in its place).
#: The attribute may lie in a class: `Enforcement._put_head_back`.
#:
#: Each entry takes out one repair, and nothing else: the judge must then find the fault, and
#: nothing without it. What stands here is the function that the repair consists of, and in its
#: place one that finds nothing to do.
REPAIRS: dict[str, tuple[tuple[str, str, Callable[..., object]], ...]] = {
    "D": (
        (SNAPSHOT, "Untouched.hidden", lambda before: {}),
        UNTOLD,
    ),
    "E": (
        ("tugtool.git.status", "_is_nested", lambda field: False),
        UNTOLD,
    ),
    "F": (
        (SNAPSHOT, "_Main.differences", lambda before, now: []),
        UNTOLD,
    ),
    "K": ((ENFORCEMENT, "Enforcement._left", lambda guard: None),),
    "Y": ((SNAPSHOT, "_Shared.put_back", lambda before, now: iter(())),),
    "HEAD": ((ENFORCEMENT, "Enforcement._put_head_back", lambda guard: None),),
    "files": (
        (ENFORCEMENT, "Enforcement._put_files_back", lambda guard, before: None),
        UNTOLD,
    ),
}


def take_out(letter: str) -> None:
    """Put the replacements of a letter in place, wherever modules have taken the name from."""
    for module, name, instead in REPAIRS[letter] if letter else ():
        home: object = importlib.import_module(module)
        *classes, attribute = name.split(".")
        for each in classes:
            home = getattr(home, each)
        right = getattr(home, attribute)
        setattr(home, attribute, instead)
        for other in [each for key, each in sys.modules.items() if key.startswith("tugtool")]:
            for alias, value in list(vars(other).items()):
                if value is right:
                    setattr(other, alias, instead)


if __name__ == "__main__":
    take_out(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
