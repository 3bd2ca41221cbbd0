"""What the clients mean to ask: rates, shapes, sessions and mistakes, all from the seed."""

from __future__ import annotations

from itertools import islice

import pytest

from targets.serving.load.agenda import Agenda
from targets.serving.load.asks import Ask, Ranking, Turn, asks, rankings, sessions
from targets.serving.load.client import body
from targets.serving.load.shapes import SHAPES, factor, most
from targets.serving.settings import ITEMS, PROMPT_MOST, USERS, Settings


def ask(at: float, deadline: float = 1.0, name: str = "") -> Ranking:
    return Ranking(at=at, id=name or f"r{at}", priority="normal", deadline=deadline, user=1, items=(1,))


def turn(number: int = 0, session: str = "s0") -> Turn:
    return Turn(
        at=1.0, id=f"{session}.{number}", priority="low", deadline=8.0, session=session, turn=number,
        prompts=((1,), (2,), (3,)), tokens=4,
    )  # fmt: skip


def test_the_same_seed_asks_the_same_and_another_one_does_not() -> None:
    first, again, other = (list(asks(Settings(seconds=3, seed=seed))) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_requests_come_in_order_at_the_rate_of_the_settings() -> None:
    found = list(asks(Settings(seconds=50, rate=80, streams=2, turns=3)))
    assert [a.at for a in found] == sorted(a.at for a in found)
    assert sum(isinstance(a, Ranking) for a in found) == pytest.approx(4000, rel=0.05)
    assert sum(isinstance(a, Turn) for a in found) == pytest.approx(50 * 2 / 3, rel=0.3)


@pytest.mark.parametrize(("shape", "during"), [("steady", 1.0), ("burst", 5.0), ("ramp", 3.0), ("spike", 3.0)])
def test_a_shape_is_a_factor_of_the_rate_while_it_lasts(shape: str, during: float) -> None:
    settings = Settings(seconds=30, rate=100, shape=shape, peak=5, peak_at=10, peak_for=10)
    moments = [a.at for a in rankings(settings)]
    before, within, after = (sum(low <= at < low + 10 for at in moments) for low in (0, 10, 20))
    assert before == pytest.approx(1000, rel=0.1)
    assert within == pytest.approx(1000 * during, rel=0.1)
    assert after == pytest.approx(1000, rel=0.1)


def test_a_ramp_rises_and_a_spike_falls() -> None:
    assert [round(factor(Settings(shape="ramp", peak=5, peak_at=0, peak_for=4), t), 1) for t in range(5)] == [
        1, 2, 3, 4, 1,
    ]  # fmt: skip
    assert [round(factor(Settings(shape="spike", peak=5, peak_at=0, peak_for=4), t), 1) for t in range(5)] == [
        5, 4, 3, 2, 1,
    ]  # fmt: skip
    for shape in SHAPES:
        settings = Settings(shape=shape)
        assert max(factor(settings, t / 10) for t in range(200)) <= most(settings)


def test_priorities_and_the_hot_user_have_their_shares() -> None:
    found = list(rankings(Settings(seconds=100, high=0.2, low=0.3, hot=0.4)))
    share = {p: sum(a.priority == p for a in found) / len(found) for p in ("high", "normal", "low")}
    assert share == pytest.approx({"high": 0.2, "normal": 0.5, "low": 0.3}, abs=0.03)
    users = [a.user for a in found if isinstance(a, Ranking)]
    assert users.count(0) / len(users) == pytest.approx(0.4, abs=0.03)
    assert all(0 <= user < USERS for user in users)


def test_mistakes_are_mistakes_and_as_many_as_asked_for() -> None:
    found = list(rankings(Settings(seconds=100, wrong_share=0.3)))
    wrong = [a for a in found if a.mistake]
    assert len(wrong) / len(found) == pytest.approx(0.3, abs=0.03)
    assert {a.mistake for a in wrong} == {"json", "item", "prompt"}
    for mistaken in wrong:
        if isinstance(mistaken, Turn):
            assert len(mistaken.prompt) > PROMPT_MOST
        elif mistaken.mistake == "item":
            assert isinstance(mistaken, Ranking)
            assert max(mistaken.items) >= ITEMS
        else:
            with pytest.raises(ValueError, match="truncated"):
                __import__("msgspec").json.decode(body(mistaken))
    assert all(max(a.items) < ITEMS for a in found if isinstance(a, Ranking) and not a.mistake)


def test_a_session_goes_on_until_its_last_turn() -> None:
    second = turn().after(2.0, whole=True)
    assert second is not None
    assert (second.id, second.turn, second.prompt, second.at) == ("s0.1", 1, (2,), 2.0)
    assert turn(2).after(2.0, whole=True) is None


def test_what_is_left_of_a_session_without_an_answer_is_asked_in_a_new_one() -> None:
    anew = turn(1).after(2.0, whole=False)
    assert anew is not None
    assert (anew.session, anew.turn, anew.prompts, anew.id) == ("s0/1", 0, ((3,),), "s0/1.0")
    again = turn().after(2.0, whole=False)
    assert again is not None
    then = again.after(3.0, whole=False)
    assert then is not None
    assert (then.session, then.prompts) == ("s0/2", ((3,),))


def test_ids_and_sessions_are_never_used_twice() -> None:
    found = list(islice(asks(Settings(seconds=60, wrong_share=0.2)), 5000))
    assert len({a.id for a in found}) == len(found)
    assert len({a.session for a in found if isinstance(a, Turn)}) == sum(isinstance(a, Turn) for a in found)
    assert not any(sessions(Settings(streams=0)))


def test_requests_come_due_whatever_became_of_the_earlier_ones() -> None:
    agenda = Agenda(iter([ask(1.0), ask(2.0), ask(3.0)]), 10)
    assert agenda.next() == 1.0
    assert agenda.come(0.5) == []
    assert [a.at for a in agenda.come(2.5)] == [1.0, 2.0]
    assert agenda.next() == 2.0  # the first one expires
    taken: list[Ask | None] = [agenda.take(), agenda.take(), agenda.take()]
    assert [a and a.at for a in taken] == [1.0, 2.0, None]
    assert agenda.next() == 3.0


def test_what_waited_until_its_deadline_is_handed_back_and_not_sent() -> None:
    agenda = Agenda(iter([ask(1.0, 8.0, "turn"), ask(1.0, 1.0, "a"), ask(1.5, 1.0, "b")]), 10)
    agenda.come(1.9)
    assert agenda.next() == 2.0
    assert [a.id for a in agenda.expire(2.4)] == ["a"]
    left = agenda.take(), agenda.take()
    assert [a and a.id for a in left] == ["turn", "b"]
    assert agenda.next() is None


def test_turns_come_up_among_the_arrivals_and_none_begins_after_the_end() -> None:
    agenda = Agenda(iter([ask(1.0), ask(3.0)]), 4.0)
    agenda.add(ask(2.0))
    agenda.add(ask(4.0))
    assert [a.at for a in agenda.come(9.0)] == [1.0, 2.0, 3.0]
    agenda.take(), agenda.take(), agenda.take()
    assert agenda.next() is None
