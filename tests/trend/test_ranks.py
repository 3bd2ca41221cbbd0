"""Rank tests against the literature, and against counting all that could have been."""

from __future__ import annotations

import random
from itertools import combinations, permutations

import pytest

from chaos.trend.ranks import _normal, answerable, compare, holm, least_p, midranks, needed, pettitt

# Hollander and Wolfe, Nonparametric Statistical Methods (1973), p. 69: permeability of the human chorioamnion.
AT_TERM = (0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46)
EARLY = (1.15, 0.88, 0.90, 0.74, 1.21)
# Annual flow of the Nile at Aswan, 1871 to 1970, 10⁸ m³ (Cobb 1978): it fell in 1899.
NILE = (
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
)  # fmt: skip


def brute(before: list[float], after: list[float]) -> float:
    """The p-value by dealing the values in every way there is."""
    values = [*before, *after]

    def u(chosen: tuple[int, ...]) -> float:
        rest = [values[i] for i in range(len(values)) if i not in chosen]
        return sum((b > a) + (b == a) / 2 for a in rest for b in (values[i] for i in chosen))

    observed = u(tuple(range(len(before), len(values))))
    all_ = list(combinations(range(len(values)), len(after)))
    return sum(u(chosen) >= observed for chosen in all_) / len(all_)


def test_hollander_and_wolfe() -> None:
    found = compare(EARLY, AT_TERM)
    assert found.u == 35
    assert found.p == pytest.approx(0.1272, abs=5e-5)


def test_the_tortoises_and_the_hares() -> None:
    """Aesop's race as it is told of the U test: T H H H H H T T T T T H."""
    order = "THHHHHTTTTTH"
    tortoises = [12.0 - i for i, runner in enumerate(order) if runner == "T"]
    hares = [12.0 - i for i, runner in enumerate(order) if runner == "H"]
    assert compare(hares, tortoises).u == 11
    assert compare(tortoises, hares).u == 25


def test_both_ends_together_are_two_sided() -> None:
    males, females = [19.0, 22, 16, 29, 24], [20.0, 11, 17, 12]
    found = compare(females, males)
    assert found.u == 17
    assert found.p == pytest.approx(0.1111111 / 2, abs=1e-7)


@pytest.mark.parametrize("seed", range(12))
def test_exact_is_what_counting_all_ways_gives_with_ties_and_without(seed: int) -> None:
    dice = random.Random(seed)
    values = range(5) if seed % 2 else range(100)
    before = [float(dice.choice(values)) for _ in range(dice.randint(1, 6))]
    after = [float(dice.choice(values)) for _ in range(dice.randint(1, 6))]
    assert compare(before, after).p == pytest.approx(brute(before, after), abs=1e-12)


def test_the_normal_approximation_meets_the_exact_where_it_takes_over() -> None:
    dice = random.Random(1)
    for spread in (4, 1000):
        before = [float(dice.randrange(spread)) for _ in range(15)]
        after = [float(dice.randrange(spread)) + spread / 4 for _ in range(15)]
        exact, near = compare(before, after).p, compare([*before, -1.0], after).p
        assert near == pytest.approx(exact, rel=0.5)
        assert near < exact  # one lower value more before can only speak for worse


def test_the_normal_approximation_has_its_correction_for_continuity() -> None:
    """Of the same nine values: 0.11134688653 two-sided with it, 0.0864107 without."""
    males, females = [19.0, 22, 16, 29, 24], [20.0, 11, 17, 12]
    assert _normal(17, 4, 5, [*females, *males]) == pytest.approx(0.11134688653 / 2, abs=1e-10)


def test_the_normal_approximation_by_the_book() -> None:
    """With ties: 20 values of 0 and 20 of 1 against the same has U = nm/2, and p is just above one half."""
    half = [0.0] * 20 + [1.0] * 20
    found = compare(half, half)
    assert (found.u, found.superiority, found.shift) == (800, 0.5, 0.0)
    assert found.p == pytest.approx(0.5, abs=0.01)
    assert compare([1.0] * 40, [1.0] * 40).p == 1.0
    assert compare([0.0] * 40, [1.0] * 40).p < 1e-15


def test_effect_sizes() -> None:
    found = compare([1.0, 2.0, 3.0], [11.0, 12.0, 13.0])
    assert (found.superiority, found.shift, found.p) == (1.0, 10.0, 1 / 20)


def test_a_comparison_needs_two_sides() -> None:
    with pytest.raises(ValueError, match="both sides"):
        compare([], [1.0])


def test_how_many_runs_could_show_anything() -> None:
    assert least_p(1, 1) == 0.5
    assert least_p(3, 3) == 1 / 20
    assert least_p(0, 5) == 1.0
    assert needed(3, 0.05) == 3
    assert needed(1, 0.05) == 19
    assert needed(0, 0.05) == 3
    for before in range(1, 8):
        enough = needed(before, 0.01)
        assert least_p(before, enough) <= 0.01
        assert enough == 1 or least_p(before, enough - 1) > 0.01


def test_ranks_of_ties_are_their_mean() -> None:
    assert midranks([3.0, 1.0, 3.0, 2.0]) == [3.5, 1.0, 3.5, 2.0]
    assert midranks([]) == []


def test_the_nile_fell_after_1898() -> None:
    change = pettitt([float(flow) for flow in NILE])
    assert change is not None
    assert 1871 + change.at == 1899
    assert change.p < 1e-6


@pytest.mark.parametrize("n", [4, 6, 7])
def test_the_approximation_of_a_change_is_on_the_safe_side(n: int) -> None:
    ks = sorted(change.k for order in permutations(range(n)) if (change := pettitt([float(v) for v in order])))
    change = pettitt([float(v) for v in range(n)])
    assert change is not None
    exact = sum(k >= change.k for k in ks) / len(ks)
    assert exact <= change.p


def test_no_change_is_found_where_there_is_none_or_too_little() -> None:
    assert pettitt([1.0, 2.0, 3.0]) is None
    flat = pettitt([1.0] * 30)
    assert flat is not None
    assert (flat.k, flat.p) == (0.0, 1.0)
    ten, eleven = pettitt([float(v) for v in range(10)]), pettitt([float(v) for v in range(11)])
    assert ten is not None
    assert eleven is not None
    assert ten.p > 0.05 > eleven.p
    step = pettitt([1.0] * 15 + [2.0] * 15)
    assert step is not None
    assert (step.at, step.p < 0.001) == (15, True)


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_tests_that_can_never_be_significant_are_not_counted() -> None:
    assert answerable([], 0.05) == []
    assert answerable([1.0], 0.05) == []
    assert answerable([0.05], 0.05) == [0]
    assert answerable([0.05, 0.05], 0.05) == []
    assert answerable([0.004, 0.05, 0.3], 0.05) == [0]
    assert answerable([0.01] * 5, 0.05) == [0, 1, 2, 3, 4]
    assert answerable([0.01] * 6, 0.05) == []
    least = [0.001, 0.02, 0.02, 0.03]  # Holm over those that are chosen lets each of them be significant
    chosen = answerable(least, 0.05)
    assert chosen == [0]
    assert all(least[i] * len(chosen) <= 0.05 for i in chosen)
