"""Choose, set up and tear down what a run's members are fitted with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from chaos.api import JSON, Stage
from chaos.drivers.process.fittings import FITTINGS
from chaos.drivers.process.fittings.base import Fitting
from chaos.drivers.process.fittings.tap.fitting import Tap
from chaos.drivers.process.recipe import Recipe
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import Unsupported


class Assembly:
    """The fittings of one run: those that stand, and why others do not."""

    def __init__(self, recipe: Recipe, stage: Stage, kinds: Sequence[type[Fitting]] = FITTINGS) -> None:
        self._chosen = [kind(recipe, stage) for kind in kinds if kind.wanted(recipe.launch)]
        self._watching = {f: found for f in self._chosen if (found := f.observers())}
        if self._watching and not any(isinstance(f, Tap) for f in self._chosen):
            self._chosen.append(Tap(recipe, stage))
        for fitting in self._chosen:
            if isinstance(fitting, Tap):
                fitting.watch([observer for found in self._watching.values() for observer in found])
        self.mechanisms: dict[str, str] = {}
        self.refused: dict[str, Unsupported] = {}  # by the fitting's name
        self.standing: dict[type[Fitting], Fitting] = {}

    def lab(self) -> JSON:
        """Options of each for the lab, by name; one that this machine cannot do is left out."""
        options: JSON = {}
        for fitting in tuple(self._chosen):
            try:
                options[fitting.name] = fitting.lab()
            except Unsupported as error:
                self._refuse(fitting, error)
        return {fitting.name: options[fitting.name] for fitting in self._chosen}

    @asynccontextmanager
    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> AsyncIterator[None]:
        """For the length of the block; every member must have ended when it is left."""
        async with AsyncExitStack() as stack:
            for fitting in tuple(self._chosen):
                stack.push_async_callback(_shielded, fitting)
                try:
                    self.mechanisms[fitting.name] = await fitting.set_up(supervisor, tasks)
                    self.standing[type(fitting)] = fitting
                except Unsupported as error:
                    self._refuse(fitting, error)
            yield

    def _refuse(self, fitting: Fitting, error: Unsupported) -> None:
        self._chosen.remove(fitting)
        self.standing.pop(type(fitting), None)
        self.mechanisms.pop(fitting.name, None)
        self.mechanisms[f"{fitting.name}-refused"] = str(error)
        self.refused[fitting.name] = error
        if isinstance(fitting, Tap):
            for blind in self._watching:
                if blind in self._chosen:
                    self._refuse(blind, error)


async def _shielded(fitting: Fitting) -> None:
    with anyio.CancelScope(shield=True):
        await fitting.tear_down()
