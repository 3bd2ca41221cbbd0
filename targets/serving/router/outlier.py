"""Which replica fails more than it may, and whether the others can do without it."""

from __future__ import annotations

from collections.abc import Iterable

from targets.serving.router.window import Clock, Window


class Outliers:
    """The attempts of the last seconds, for each replica."""

    def __init__(self, names: Iterable[str], *, window: float, rate: float, least: int, clock: Clock) -> None:
        self._windows = {name: Window(window, clock) for name in names}
        self._rate, self._least = rate, least

    def add(self, name: str, ok: bool) -> None:
        """One attempt at `name` has ended."""
        self._windows[name].add(ok)

    def share(self, name: str) -> float:
        """Of its attempts that failed."""
        return self._windows[name].failed

    def beyond(self, name: str) -> bool:
        """Whether it fails too often, on enough attempts to say so."""
        window = self._windows[name]
        return window.count >= self._least and window.failed > self._rate

    def alone(self, name: str) -> bool:
        """Whether it fails too often, and some other does not: then the cause is not what all have in common."""
        return self.beyond(name) and any(self._well(window) for window in self._others(name))

    def shared(self, name: str) -> bool:
        """Whether all others of which enough is known fail as well."""
        others = self._others(name)
        return bool(others) and not any(self._well(window) for window in others)

    def _others(self, name: str) -> list[Window]:
        known = max(self._least // 2, 1)  # they are asked as often as it is, so nearly as much is known of them
        return [window for other, window in self._windows.items() if other != name and window.count >= known]

    def _well(self, window: Window) -> bool:
        return window.failed < self._rate / 2

    def forget(self, name: str) -> None:
        """It starts over."""
        self._windows[name].clear()


def may_eject(out: int, of: int) -> bool:
    """Whether one more replica may be taken out for its failures where `out` are out for any reason.

    Never more than half: where all fail, the cause is elsewhere, and nobody would be left to answer.
    """
    return out + 1 <= of // 2
