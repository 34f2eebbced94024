"""The commands of whoever looks: ready, show."""

from __future__ import annotations

from tugtool import state
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.cli.output import Stream
    from tugtool.cli.parse import Call


def state_ready(call: Call) -> Answer:
    """List the steps by what can be done with them."""
    place = Place(call)
    data = state.ready(place.store, place.plan())

    def text() -> str:
        rows = [(name, names) for name, names in data.items() if isinstance(names, list)]
        return "".join(f"{name:<16} {clean(' '.join(names) or '-')}\n" for name, names in rows)

    return Answer(data, text)


def state_show(call: Call) -> Answer | Stream:
    """Show how far a plan is, once or for as long as somebody watches."""
    from tugtool.cli.sight import Sight

    sight = Sight(call)
    seen = sight.look()
    if not call.flag("watch"):
        return sight.answer(seen)
    from tugtool.cli import watch

    return watch.stream(sight, seen, as_json=call.json)
