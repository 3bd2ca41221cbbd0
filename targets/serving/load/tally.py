"""What a reader sees of a stream who shows each token as it comes."""

from __future__ import annotations

import msgspec


class Tally(msgspec.Struct, kw_only=True):
    """Tokens of one turn by their positions. Times are seconds since the intended start."""

    wanted: int
    tokens: list[int] = []  # as they were shown first, in order
    missing: list[int] = []  # positions that were jumped over, or never came
    repeated: list[int] = []  # positions that came again, or after a later one
    first: float | None = None
    gap: float | None = None  # the longest silence between two tokens
    contradicted: bool = False  # a token came again and was another one
    _next: int = 0
    _last: float = 0.0
    _shown: dict[int, int] = {}

    def take(self, position: int, token: int, at: float) -> None:
        """A token came."""
        if self.first is None:
            self.first = at
        else:
            self.gap = max(self.gap or 0.0, at - self._last)
        self._last = at
        if position < self._next:
            self.repeated.append(position)
            self.contradicted |= self._shown.get(position, token) != token
            return
        self.missing.extend(range(self._next, position))
        self._next = position + 1
        self._shown[position] = token
        self.tokens.append(token)

    def end(self) -> None:
        """No more will come."""
        self.missing.extend(range(self._next, self.wanted))
        self._next = max(self._next, self.wanted)

    def agrees(self, golden: list[int]) -> bool:
        """Whether every token that was shown is the one that belongs there."""
        return not self.contradicted and all(
            position < len(golden) and golden[position] == token for position, token in self._shown.items()
        )
