"""What an answer is worth: streams token by token, scores against the golden model, and what counts as a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from targets.serving.load import facts
from targets.serving.load.asks import Ranking, Turn
from targets.serving.load.checker import Finding, Scores, Tokens, judge
from targets.serving.load.client import Reply, finite, headers
from targets.serving.load.golden import LIVE, gap, same
from targets.serving.load.tally import Tally

RANKING = Ranking(at=1.0, id="r1", priority="high", deadline=1.0, user=3, items=(5, 6, 7))
TURN = Turn(
    at=1.0, id="s1.0", priority="normal", deadline=8.0, session="s1", turn=0, prompts=((1,), (2,)), tokens=3
)  # fmt: skip
BODY: dict[str, Any] = {
    "scores": [3.0, 2.0, 1.0], "tier": "primary", "features": LIVE, "generation": 1, "replica": "replica-0",
    "digest": "d1",
}  # fmt: skip


class Fake:
    """Primary: the item's number; other tiers: the other way round. Tokens: the prompt's first, counted up."""

    def scores(
        self, generation: int, tier: str, user: int, items: Sequence[int], features: Mapping[str, str]
    ) -> Sequence[float]:
        return [float(item if tier == "primary" else -item) for item in items]

    def tokens(self, generation: int, prompts: Sequence[Sequence[int]], tokens: int) -> Sequence[int]:
        return [prompts[-1][0] * 10 + generation + i for i in range(tokens)]


def stream(*tokens: tuple[int, int], wanted: int = 3, at: float = 0.1) -> Tally:
    tally = Tally(wanted=wanted)
    for number, (position, token) in enumerate(tokens):
        tally.take(position, token, at + number * 0.05)
    tally.end()
    return tally


def scores(**changed: Any) -> Scores:
    return msgspec.structs.replace(
        Scores(generation=1, tier="primary", user=3, items=(5, 6, 7), features=LIVE, scores=[5.0, 6.0, 7.0]), **changed
    )


def test_an_unbroken_stream_lacks_nothing() -> None:
    tally = stream((0, 11), (1, 12), (2, 13))
    assert (tally.missing, tally.repeated, tally.first) == ([], [], 0.1)
    assert tally.gap == pytest.approx(0.05)
    assert tally.agrees([11, 12, 13])


@pytest.mark.parametrize(
    ("positions", "missing", "repeated"),
    [
        ([0, 2], [1], []),
        ([0, 1], [2], []),
        ([], [0, 1, 2], []),
        ([0, 1, 0, 1, 2], [], [0, 1]),
        ([0, 2, 1], [1], [1]),
    ],
)
def test_what_is_jumped_over_is_missing_and_what_comes_again_is_repeated(
    positions: list[int], missing: list[int], repeated: list[int]
) -> None:
    tally = stream(*((p, 11 + p) for p in positions))
    assert (tally.missing, tally.repeated) == (missing, repeated)


def test_a_token_that_comes_again_as_another_one_is_wrong() -> None:
    assert not stream((0, 11), (0, 99), (1, 12), (2, 13)).agrees([11, 12, 13])
    assert stream((0, 11), (0, 11), (1, 12), (2, 13)).agrees([11, 12, 13])


def test_scores_are_right_but_for_rounding() -> None:
    assert same([1.0, 2.00001], [1.0, 2.0])
    assert not same([1.0, 2.1], [1.0, 2.0])
    assert not same([1.0], [1.0, 2.0])
    assert not same([1.0, float("nan")], [1.0, 2.0])
    assert not same(None, [1.0])


def test_the_gap_is_the_lost_value_of_the_best_items() -> None:
    primary = [float(i) for i in range(10)]
    assert gap(primary, primary) == 0
    assert gap([-s for s in primary], primary) == pytest.approx(1 - 10 / 35, abs=1e-4)
    assert gap([1.0, 2.0], [3.0, 3.0]) == 0


def test_an_answer_is_judged_by_the_tier_that_gave_it() -> None:
    assert judge(Fake(), scores()) == Finding(right=True)
    assert judge(Fake(), scores(scores=[5.0, 6.0, 8.0])).right is False
    assert judge(Fake(), scores(scores=None)).right is False
    lower = judge(Fake(), scores(tier="static", scores=[-5.0, -6.0, -7.0]))
    assert lower.right is True
    assert lower.gap == 0  # three items, all of which are among the best five
    assert judge(Fake(), scores(features=LIVE | {"useful": "cached"})).gap == 0
    assert judge(Fake(), scores(tier="static", features={}, scores=[-5.0, -6.0, -7.0])).right is True
    assert judge(Fake(), scores(features={"critical": "live"})).right is False


def test_a_stream_is_judged_by_the_one_generation_that_gave_it() -> None:
    right = Tokens(generations=(2,), prompts=((4,),), tally=stream((0, 42), (1, 43), (2, 44)), whole=True)
    assert judge(Fake(), right).right is True
    wrong = msgspec.structs.replace(right, generations=(1,))
    assert judge(Fake(), wrong).right is False
    mixed = msgspec.structs.replace(right, generations=(1, 2))
    assert judge(Fake(), mixed).right is None
    part = msgspec.structs.replace(right, whole=False, tally=stream((0, 42)))
    assert judge(Fake(), part).right is None
    assert judge(Fake(), msgspec.structs.replace(part, tally=stream((0, 7)))).right is False


def test_numbers_that_are_none_are_no_scores() -> None:
    assert finite([1, 2.0]) == [1, 2.0]
    assert finite([1.0, float("nan")]) is None
    assert finite([1.0, None]) is None
    assert finite("1") is None


def test_what_is_sent_and_what_comes_back_are_told_as_documented() -> None:
    assert facts.sent(RANKING) == {
        "id": "r1", "what": "rank", "priority": "high", "deadline": 1.0, "wrong": False,
    }  # fmt: skip
    data = facts.completed(RANKING, Reply(status=200, attempts=2, body=BODY), 0.25)
    assert data["status"], data["latency"] == (200, 0.25)
    assert data["attempts"] == 2
    assert {name: data[name] for name in ("tier", "replica", "generation", "digest")} == {
        "tier": "primary", "replica": "replica-0", "generation": 1, "digest": "d1",
    }  # fmt: skip
    assert "scores" not in data
    assert facts.failure(data) == ""
    assert facts.failure(facts.compared(data, Finding(right=False))) == "wrong answer"


def test_a_stream_is_told_token_by_token() -> None:
    reply = Reply(status=200, body={"generation": 1, "resumed": "replica"}, tally=stream((0, 1), (2, 3)))
    data = facts.completed(TURN, reply, 0.5)
    assert (data["session"], data["turn"], data["resumed"]) == ("s1", 0, "replica")
    assert (data["tokens"], data["wanted"], data["missing"], data["first"]) == (2, 3, [1], 0.1)
    assert facts.failure(data) == "broken stream"


def test_a_refused_turn_has_lost_no_token() -> None:
    data = facts.completed(TURN, Reply(status=429, tally=Tally(wanted=3)), 0.01)
    assert (data["tokens"], data["missing"], data["first"]) == (0, [], None)
    cut = facts.completed(TURN, Reply(status=0, error="cut", tally=stream((0, 1))), 0.01)
    assert cut["missing"] == [1, 2]
    assert facts.failure(cut) == "cut"


def test_a_mistake_that_gets_its_400_is_no_failure_and_one_that_gets_an_answer_is_wrong() -> None:
    mistaken = msgspec.structs.replace(RANKING, mistake="item")
    refused = facts.completed(mistaken, Reply(status=400, error="unknown item"), 0.01)
    assert (refused["wrong"], refused["right"], facts.failure(refused)) == (True, None, "")
    answered = facts.completed(mistaken, Reply(status=200, body=BODY), 0.01)
    assert answered["right"] is False
    assert facts.failure(answered)
    assert facts.failure(facts.completed(RANKING, Reply(status=400), 0.01)) == "status 400"


def test_only_what_came_back_is_compared() -> None:
    asked = facts.to_compare(RANKING, Reply(status=200, body=BODY), ())
    assert asked == scores(scores=[3.0, 2.0, 1.0])
    assert facts.to_compare(RANKING, Reply(status=503), ()) is None
    assert facts.to_compare(msgspec.structs.replace(RANKING, mistake="json"), Reply(status=200), ()) is None
    assert facts.to_compare(TURN, Reply(status=0, error="cut", tally=Tally(wanted=3)), ()) is None
    cut = facts.to_compare(TURN, Reply(status=0, error="cut", tally=stream((0, 1))), (1,))
    assert isinstance(cut, Tokens)
    assert (cut.generations, cut.whole) == ((1, 1), False)


def test_an_answer_that_is_no_ranking_is_compared_too_and_is_wrong() -> None:
    asked = facts.to_compare(RANKING, Reply(status=200, body={}), ())
    assert isinstance(asked, Scores)
    assert judge(Fake(), asked).right is False


def test_the_deadline_counts_from_the_intended_start() -> None:
    assert headers(RANKING, 1.25)["x-deadline-ms"] == "750"
    assert headers(RANKING, 9.0)["x-deadline-ms"] == "0"
    assert "idempotency-key" not in headers(RANKING, 1.0)
    assert headers(TURN, 1.0)["idempotency-key"] == "s1.0"
