"""From a target file to a live target and back to nothing: supervisor, event socket and members in their order."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import cast

import anyio
from anyio.abc import TaskGroup, TaskStatus

from chaos.api import Launch, Stage
from chaos.drivers.process import neighbours
from chaos.drivers.process.events import serve_connection
from chaos.drivers.process.fittings.assembly import Assembly
from chaos.drivers.process.recipe import SOCKET, TEMPORARY, Recipe
from chaos.drivers.process.spec import Spec
from chaos.drivers.process.supervisor import Supervisor, supervise
from chaos.drivers.process.target import LabTarget, ProcessTarget


@asynccontextmanager
async def open_target(spec: Spec, launch: Launch, stage: Stage) -> AsyncIterator[ProcessTarget]:
    """Start the target; at the end of the block nothing of it is left."""
    recipe = Recipe(spec, launch)
    assembly = Assembly(recipe, stage)
    for folder in (recipe.logs, recipe.data, *([] if launch.lab else [recipe.folder / TEMPORARY])):
        folder.mkdir(parents=True, exist_ok=True)
    with _ungrouped(), _event_socket(recipe.folder) as path:
        async with (
            await anyio.create_unix_listener(path) as listener,
            supervise(
                launch.lab, recipe.addresses, recipe.folder, recipe.alias, assembly.lab(), recipe.nursery()
            ) as supervisor,
            anyio.create_task_group() as host,
        ):
            tasks = await host.start(_serve)
            try:
                tasks.start_soon(supervisor.serve)
                tasks.start_soon(neighbours.watch, stage)
                await supervisor.wait_ready()
                async with assembly.set_up(supervisor, tasks):
                    target = _kind(supervisor, assembly)(recipe, stage, supervisor, tasks, assembly)
                    tasks.start_soon(listener.serve, lambda stream: serve_connection(stream, target))
                    tasks.start_soon(target.start_members)
                    try:
                        yield target
                    finally:
                        with anyio.CancelScope(shield=True):
                            await target.stop()
            finally:
                tasks.cancel_scope.cancel()


def _kind(supervisor: Supervisor, assembly: Assembly) -> type[ProcessTarget]:
    """A target that is what this machine and this run's fittings make of it."""
    base = LabTarget if "links" in supervisor.mechanisms else ProcessTarget
    faces = tuple(kind.face for kind in assembly.standing)
    return cast(type[ProcessTarget], type("FittedTarget", (*faces, base), {})) if faces else base


async def _serve(*, task_status: TaskStatus[TaskGroup]) -> None:
    """Tasks that outlive a cancelled run: what members say and how they end must be told to the last."""
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as tasks:
            task_status.started(tasks)
            await anyio.sleep_forever()


@contextmanager
def _ungrouped() -> Iterator[None]:
    """An error that came through a task group by itself leaves it as itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        alone: BaseException = group
        while isinstance(alone, BaseExceptionGroup):
            if len(alone.exceptions) > 1:
                raise
            alone = alone.exceptions[0]
        raise alone from alone.__cause__


@contextmanager
def _event_socket(folder: Path) -> Iterator[str]:
    """A path for the event socket below `folder`, short however deep that is."""
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{SOCKET}"
    finally:
        with suppress(FileNotFoundError):
            os.unlink(SOCKET, dir_fd=directory)
        os.close(directory)
