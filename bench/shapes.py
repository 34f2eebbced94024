"""Plans of any number of steps, in the shapes that make a careless scheduler slow."""

from collections.abc import Callable, Iterable

HEAD = """\
## Phase 1.0: Bench {#phase-bench}

### Plan Metadata {#plan-metadata}

| Field | Value |
|-------|-------|
| Owner | bench |
| Status | active |
| Last updated | 2026-01-01 |

### Phase Overview {#phase-overview}

### Execution Steps {#execution-steps}
"""
STEP = """
#### Step {n}: Carry load {n} {{#step-{n}}}

{needs}**References:** (#phase-overview)

**Tasks:**
- [ ] Lift it
"""
WIDTH = 10


def free(n: int, total: int) -> Iterable[int]:
    """No step needs another."""
    return ()


def chain(n: int, total: int) -> Iterable[int]:
    """Each needs the one before."""
    return (n - 1,) if n else ()


def fan(n: int, total: int) -> Iterable[int]:
    """All need the first, and the last needs all."""
    if n == total - 1:
        return range(1, total - 1)
    return (0,) if n else ()


def diamonds(n: int, total: int) -> Iterable[int]:
    """Layers of ten; each of a layer needs all of the layer before."""
    layer = n // WIDTH
    return range((layer - 1) * WIDTH, layer * WIDTH) if layer else ()


def braid(n: int, total: int) -> Iterable[int]:
    """Layers of ten; each of a layer needs two of the layer before: its own lane and the next."""
    layer, lane = divmod(n, WIDTH)
    start = (layer - 1) * WIDTH
    return (start + lane, start + (lane + 1) % WIDTH) if layer else ()


SHAPES: dict[str, Callable[[int, int], Iterable[int]]] = {
    "free": free,
    "chain": chain,
    "fan": fan,
    "diamonds": diamonds,
    "braid": braid,
}


def plan(shape: str, total: int) -> str:
    """Return a whole plan as text."""
    parts = [HEAD]
    for n in range(total):
        names = ", ".join(f"#step-{need}" for need in SHAPES[shape](n, total))
        needs = f"**Depends on:** {names}\n\n" if names else ""
        parts.append(STEP.format(n=n, needs=needs))
    return "".join(parts)
