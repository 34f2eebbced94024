"""How long something lasts, in words."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """`45s`, `12m`, `1h 05m`, `2h`, `3d 4h`: the two largest units at most, never rounded up."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days:
        return f"{days}d {hours % 24}h" if hours % 24 else f"{days}d"
    if hours:
        return f"{hours}h {minutes % 60:02}m" if minutes % 60 else f"{hours}h"
    return f"{minutes}m" if minutes else f"{whole}s"
