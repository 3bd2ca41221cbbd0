"""Rank tests: no distribution is assumed, since what a recovery takes has a long tail and few runs.

All are pure functions of the values; nothing is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb, erfc, exp, sqrt

import msgspec

EXACT = 30  # values in both samples, up to which all ways to deal them are counted


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Two samples. `u` counts the pairs in which the value after is larger, ties as half (Mann and Whitney 1947).

    `p` is one-sided: how likely so large a `u` is where both samples are from one distribution. `superiority` is the
    share of such pairs (Vargha and Delaney's A: 0.5 is no difference), `shift` the median of all pairwise differences
    (Hodges and Lehmann 1963).
    """

    before: int
    after: int
    u: float
    p: float
    superiority: float
    shift: float


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Where a series changes most: the values from `at` on are another level than those before it (Pettitt 1979)."""

    at: int
    k: float
    p: float


def compare(before: Sequence[float], after: Sequence[float]) -> Compared:
    """Whether values after are larger. Exact for up to 30 values in all, with ties or without; for more the normal
    approximation, with the correction for ties and for continuity. ValueError where a sample is empty."""
    if not before or not after:
        raise ValueError("a comparison needs a value on both sides")
    n, m = len(before), len(after)
    ranks = midranks([*before, *after])
    u = sum(ranks[n:]) - m * (m + 1) / 2
    p = _exact(ranks, m, sum(ranks[n:])) if n + m <= EXACT else _normal(u, n, m, [*before, *after])
    differences = sorted(b - a for a in before for b in after)
    return Compared(before=n, after=m, u=u, p=p, superiority=u / (n * m), shift=_middle(differences))


def least_p(before: int, after: int) -> float:
    """The smallest p that so many runs can have: with fewer than it takes, a test says nothing whatever happened."""
    return 1 / comb(before + after, after) if before and after else 1.0


def needed(before: int, alpha: float) -> int:
    """The fewest runs after that could show anything against so many before; where there are none, of each."""
    after = 1
    while least_p(before or after, after) > alpha:
        after += 1
    return after


def answerable(least: Sequence[float], alpha: float) -> list[int]:
    """Which of many tests could be significant once all are corrected for being many (Tarone 1990); given is the
    smallest p that each can have, which depends on how many values there are and not on what they are.

    The others say nothing whatever happened, so they are not looked at, and the correction is for fewer.
    """
    for k in range(1, len(least) + 1):
        able = [i for i, p in enumerate(least) if p * k <= alpha]
        if len(able) <= k:
            return able
    return []


def midranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in order[start : end + 1]:
            ranks[place] = (start + end) / 2 + 1
        start = end + 1
    return ranks


def pettitt(values: Sequence[float]) -> Change | None:
    """The most likely point of change, None for fewer than four values.

    With the ranks r of n values, U(t) = 2·(r1 + … + rt) - t·(n + 1); the change is where |U| is largest, K, and p is
    about 2·exp(-6K²/(n³ + n²)). The approximation is on the safe side for a short series: it needs eleven values
    or more to fall below 0.05.
    """
    n = len(values)
    if n < 4:
        return None
    total, best, at = 0.0, 0.0, 1
    for t, rank in enumerate(midranks(values)[:-1], 1):
        total += rank
        u = abs(2 * total - t * (n + 1))
        if u > best:
            best, at = u, t
    return Change(at=at, k=best, p=min(1.0, 2 * exp(-6 * best**2 / (n**3 + n**2))))


def holm(values: Sequence[float]) -> list[float]:
    """The p-values corrected for being many (Holm 1979), each at its place: reject those that are below alpha."""
    order = sorted(range(len(values)), key=values.__getitem__)
    corrected = [0.0] * len(values)
    least = 0.0
    for step, place in enumerate(order):
        least = max(least, min(1.0, values[place] * (len(values) - step)))
        corrected[place] = least
    return corrected


def _exact(ranks: Sequence[float], m: int, observed: float) -> float:
    """The share of all ways to choose `m` of the ranks whose sum is at least the one observed.

    Ranks are halves at most, so twice their sum is a whole number, and sums can be counted instead of subsets.
    """
    ways: list[Counter[int]] = [Counter() for _ in range(m + 1)]
    ways[0][0] = 1
    for rank in ranks:
        twice = round(2 * rank)
        for size in range(m, 0, -1):
            for total, count in ways[size - 1].items():
                ways[size][total + twice] += count
    enough = sum(count for total, count in ways[m].items() if total >= round(2 * observed))
    return enough / comb(len(ranks), m)


def _normal(u: float, n: int, m: int, values: Sequence[float]) -> float:
    size = n + m
    ties = sum(count**3 - count for count in Counter(values).values())
    variance = n * m / 12 * (size + 1 - ties / (size * (size - 1)))
    if variance == 0:
        return 1.0  # all values are equal
    return erfc((u - n * m / 2 - 0.5) / sqrt(variance) / sqrt(2)) / 2


def _middle(ordered: Sequence[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
