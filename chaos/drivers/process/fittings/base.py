"""The contract between a live target and what its members are fitted with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from anyio.abc import TaskGroup

from chaos.api import JSON, Launch, Member, Stage
from chaos.drivers.process.fittings.tap.observer import Observer
from chaos.drivers.process.recipe import Recipe
from chaos.drivers.process.spec import Program
from chaos.drivers.process.supervisor import Supervisor


class Fitting(ABC):
    """A capability that is set up before the first member starts, and gone after the last one.

    `fit_NAME.py` beside `init.py`, where there is one, does what must be done in the lab: `prepare(options)` before
    there are namespaces (with the rights of whoever runs the harness), `furnish(options)` as process 1 in the lab,
    `dress(options, fds)` in each member's process right before its program is executed. What `prepare` returns is
    called once the lab has ended. Without a lab, `release(options)` comes before all members are ended and
    `settle(options)` after it. Standard library only.
    """

    name: ClassVar[str]  # in `target.ready`'s mechanisms; `NAME-refused` there says why it does not stand
    capability: ClassVar[type]  # of chaos.api: what the target becomes by it
    face: ClassVar[type[Face]]  # mixed into the target: the capability's methods, which find this by `self.fitting()`

    def __init__(self, recipe: Recipe, stage: Stage) -> None:
        self.recipe = recipe
        self.stage = stage

    @classmethod
    def wanted(cls, launch: Launch) -> bool:
        """Whether this run needs it."""
        return launch.wants(cls.capability)

    def lab(self) -> JSON:
        """Options for `prepare` and `furnish`; raises Unsupported with the reason when this machine cannot do it."""
        return {}

    def observers(self) -> Sequence[Observer]:
        """Who must see file operations of members before they happen: all members are tapped for these then, and where
        this machine cannot, this does not stand either. Asked once, right after `__init__`."""
        return ()

    @abstractmethod
    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        """The lab stands and no member has started. Returns what does it, for people; raises Unsupported."""

    def environment(self, program: Program) -> Mapping[str, str]:
        """What a member's environment gets on top."""
        return {}

    def dress(self, program: Program) -> tuple[JSON, Sequence[int]] | None:
        """Options and file descriptors for `dress` in the member's process, None for nothing. The descriptors stay
        the fitting's own."""
        return None

    async def started(self, program: Program, pid: int) -> None:  # noqa: B027 - most have nothing to do
        """A member was executed; also when it is started again."""

    def met(self, member: Member) -> None:  # noqa: B027 - most have nothing to do
        """A process said which member it is."""

    async def tear_down(self) -> None:  # noqa: B027 - most have nothing to do
        """Every member has ended. Must not raise, and must do its part when `set_up` failed half-way."""


F = TypeVar("F", bound=Fitting)


class Face:
    """What a fitting gives to the target: methods that forward to it."""

    fittings: Mapping[type[Fitting], Fitting]

    def fitting(self, kind: type[F]) -> F:
        """The fitting of that kind, which stands."""
        found = self.fittings[kind]
        assert isinstance(found, kind)
        return found
