"""Durations, shares, sizes and rates as people write them: `250ms`, `90%`, `64KiB`, `2/h`; and back."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

DURATIONS: Mapping[str, float] = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SIZES: Mapping[str, int] = {
    "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
RATES: Mapping[str, float] = {"/s": 1.0, "/m": 1 / 60, "/h": 1 / 3600, "/d": 1 / 86400}
EXAMPLES: Mapping[str, str] = {
    "duration": "250ms, 8s, 2m, 1h",
    "ratio": "90% or 0.9",
    "size": "64KiB or 10MB",
    "rate": "0.5/s, 1/m, 2/h",
}
NUMBER = r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_QUANTITY = re.compile(rf"\s*([-+]?(?:{NUMBER}|\.\d+|inf|nan))\s*(\S.*?)?\s*", re.IGNORECASE)


class UnitError(ValueError):
    """Text that is no such quantity; `fix` says how to write one."""

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.fix = fix


def parse_duration(text: str) -> float:
    """Seconds. A number needs its unit: `8` could be seconds or milliseconds."""
    return _parse(text, "duration", DURATIONS)


def parse_size(text: str) -> int:
    """Bytes, whole."""
    size = _parse(text, "size", SIZES)
    if size != int(size):
        raise UnitError(f"`{text}` is no whole number of bytes", f"such as {EXAMPLES['size']}")
    return int(size)


def parse_rate(text: str) -> float:
    """Times per second."""
    return _parse(text, "rate", RATES)


def parse_ratio(text: str) -> float:
    """A share: `90%` and `0.9` are the same."""
    return _parse(text, "ratio", {"%": 0.01, "": 1.0})


PARSERS: Mapping[str, Callable[[str], float]] = {
    "duration": parse_duration,
    "ratio": parse_ratio,
    "size": parse_size,
    "rate": parse_rate,
}


def _parse(text: str, what: str, units: Mapping[str, float]) -> float:
    such = f"such as {EXAMPLES[what]}"
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(f"`{text}` is no {what}", such)
    number, unit = float(match[1]), match[2] or ""
    if not math.isfinite(number):
        raise UnitError(f"`{text}` is not finite", such)
    if number < 0:
        raise UnitError(f"`{text}` is negative", such)
    if unit not in units:
        known = ", ".join(filter(None, units))
        reason = f"unknown unit `{unit}` in `{text}`" if unit else f"`{text}` has no unit"
        raise UnitError(reason, f"a {what} is written {EXAMPLES[what]}; units: {known}")
    # Dividing by 100 is exact where multiplying by 0.01 is not: 90 % must be 0.9.
    value = number / round(1 / units[unit]) if 0 < units[unit] < 1 else number * units[unit]
    if not math.isfinite(value):
        raise UnitError(f"`{text}` is too large", such)
    return value


def format_duration(seconds: float) -> str:
    """The shortest exact writing: 0.25 → `250ms`, 2.0 → `2s`, 90.0 → `90s`, 120.0 → `2m`."""
    if seconds == 0:
        return "0s"
    if seconds < 1:
        unit = "ms" if seconds >= 1e-3 else "us"
        return f"{_number(seconds / DURATIONS[unit])}{unit}"
    unit = next(u for u in ("d", "h", "m", "s") if u == "s" or seconds % DURATIONS[u] == 0)
    return f"{_number(seconds / DURATIONS[unit])}{unit}"


def format_ratio(share: float) -> str:
    """0.9 → `90%`."""
    return f"{_number(share * 100)}%"


def format_size(size: int) -> str:
    """The largest unit that divides it, binary before decimal: 65536 → `64KiB`, 10_000_000 → `10MB`."""
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB"):
        if size and size % SIZES[unit] == 0:
            return f"{size // SIZES[unit]}{unit}"
    return f"{size}B"


def format_rate(per_second: float) -> str:
    """The coarsest unit in which the number is at least one: 1/1800 → `2/h`."""
    unit = next((u for u in ("/s", "/m", "/h", "/d") if per_second >= RATES[u]), "/d")
    return f"{_number(per_second / RATES[unit])}{unit}"


def counted(number: object, one: str, many: str = "") -> str:
    """A number with what it counts, and a verb where one follows: `1 request was`, `3 requests were`."""
    return f"{number} {one if str(number) == '1' else many or one + 's'}"


def _number(value: float) -> str:
    return f"{value:.10g}"
