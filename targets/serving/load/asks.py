"""What the clients ask for and when: all of it follows from the settings and their seed."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterator

import msgspec

from targets.serving.load.shapes import factor, most
from targets.serving.settings import ITEMS, PROMPT, PROMPT_MOST, RANKED, USERS, VOCABULARY, Settings

MISTAKES = ("json", "item", "prompt")  # what clients do wrong: no JSON, an unknown item, a prompt beyond the limit


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request as its client means it. `at`: its intended start, seconds after that of the load."""

    at: float
    id: str
    priority: str
    deadline: float
    mistake: str = ""

    @property
    def expires(self) -> float:
        """When its answer is of no use any more."""
        return self.at + self.deadline


class Ranking(Ask, frozen=True, kw_only=True):
    """These items, best first for that user."""

    user: int
    items: tuple[int, ...]


class Turn(Ask, frozen=True, kw_only=True):
    """One turn of a session; `prompts` are those of all of its turns, of which this is number `turn`, from 0."""

    session: str
    turn: int
    prompts: tuple[tuple[int, ...], ...]
    tokens: int

    @property
    def prompt(self) -> tuple[int, ...]:
        return self.prompts[self.turn]

    def after(self, at: float, *, whole: bool) -> Turn | None:
        """The next turn, if there is one: of the same session where this one was answered in full (`whole`).

        A client that got no answer begins anew with what is left, so that as much is asked for as was meant.
        """
        left = self.prompts[self.turn + 1 :]
        if not left or self.mistake:
            return None
        session, _, again = self.session.partition("/")
        if whole:
            name, turn, prompts = self.session, self.turn + 1, self.prompts
        else:
            name, turn, prompts = f"{session}/{int(again or 0) + 1}", 0, left
        return msgspec.structs.replace(self, at=at, id=f"{name}.{turn}", session=name, turn=turn, prompts=prompts)


def asks(settings: Settings) -> Iterator[Ask]:
    """The rankings and the first turns of all sessions, by their intended start, until `seconds`."""
    return heapq.merge(rankings(settings), sessions(settings), key=lambda ask: ask.at)


def rankings(settings: Settings) -> Iterator[Ask]:
    """A Poisson process whose rate follows the shape."""
    dice = random.Random(f"{settings.seed}:rankings")
    top = settings.rate * most(settings)
    for number, at in enumerate(_moments(dice, top, settings)):
        user = 0 if dice.random() < settings.hot else dice.randrange(USERS)
        ranking = Ranking(
            at=at, id=f"r{number}", priority=_priority(dice, settings), deadline=settings.deadline, user=user,
            items=tuple(dice.sample(range(ITEMS), RANKED)),
        )  # fmt: skip
        yield _mistaken(ranking, settings, dice) if dice.random() < settings.wrong_share else ranking


def sessions(settings: Settings) -> Iterator[Ask]:
    """The first turn of each session, a Poisson process: with all of their turns `streams` a second."""
    dice = random.Random(f"{settings.seed}:sessions")
    rate = settings.streams / max(settings.turns, 1)
    for number, at in enumerate(_arrivals(dice, rate, settings.seconds)):
        prompts = tuple(tuple(dice.choices(range(VOCABULARY), k=PROMPT)) for _ in range(settings.turns))
        yield Turn(
            at=at, id=f"s{number}.0", priority=_priority(dice, settings), deadline=settings.stream_deadline,
            session=f"s{number}", turn=0, prompts=prompts, tokens=settings.tokens,
        )  # fmt: skip


def _mistaken(ranking: Ranking, settings: Settings, dice: random.Random) -> Ask:
    mistake = dice.choice(MISTAKES)
    if mistake == "item":
        return msgspec.structs.replace(ranking, mistake=mistake, items=(*ranking.items[1:], ITEMS + ranking.items[0]))
    if mistake == "json":
        return msgspec.structs.replace(ranking, mistake=mistake)
    prompt = tuple(itertools.islice(itertools.cycle(ranking.items), PROMPT_MOST + 1))
    return Turn(
        at=ranking.at, id=ranking.id, priority=ranking.priority, deadline=settings.deadline, mistake=mistake,
        session=f"mistaken-{ranking.id}", turn=0, prompts=(tuple(i % VOCABULARY for i in prompt),), tokens=1,
    )  # fmt: skip


def _priority(dice: random.Random, settings: Settings) -> str:
    drawn = dice.random()
    if drawn < settings.high:
        return "high"
    return "low" if drawn < settings.high + settings.low else "normal"


def _moments(dice: random.Random, top: float, settings: Settings) -> Iterator[float]:
    # Thinning: of the moments at the highest rate as many are kept as the rate of that moment is of the highest.
    for at in _arrivals(dice, top, settings.seconds):
        if dice.random() * most(settings) < factor(settings, at):
            yield at


def _arrivals(dice: random.Random, rate: float, end: float) -> Iterator[float]:
    at = dice.expovariate(rate) if rate > 0 else end
    while at < end:
        yield at
        at += dice.expovariate(rate)
