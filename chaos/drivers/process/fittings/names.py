"""Names of nodes in the lab: every member looks them up in one file of the run, which can be written anew."""

from __future__ import annotations

import json
import os
import sys

import anyio
from anyio.abc import TaskGroup

from chaos.api import JSON
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import NotLanded, Unsupported
from chaos.ways import Misnaming, Names

HOSTS = "/etc/hosts"
WITHIN = 20.0  # seconds for a look-up by an interpreter of its own on a busy machine
# The library that members use as well; a name without an answer is an error there.
LOOK_UP = """
import json, socket, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0]
    except socket.gaierror:
        found[name] = None
print(json.dumps(found))
"""


class Naming(Fitting):
    """The file that the lab has in place of /etc/hosts. Later changes of a name hide earlier ones."""

    name = "names"
    capability = Names
    supervisor: Supervisor

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        if not self.recipe.launch.lab:
            raise Unsupported("without the lab members look up names as the machine does")
        if not await anyio.Path(HOSTS).exists():
            raise Unsupported(f"there is no {HOSTS} that the lab could replace")
        self.supervisor = supervisor
        self._hosts = self.recipe.folder / "hosts"
        self._whole = self._hosts.read_text()
        self._changes: list[Misnaming] = []
        return f"{HOSTS} of the lab"

    async def misname(self, change: Misnaming) -> JSON:
        if unknown := {*change.names, *([change.answer] if change.answer else [])} - self.recipe.addresses.keys():
            raise NotLanded(f"no such node: {', '.join(sorted(unknown))}")
        before = await self._look_up(change)
        self._changes.append(change)
        self._write()
        try:
            now = await self._look_up(change)
            wanted = self.recipe.addresses[change.answer] if change.answer else None
            if wrong := {name: answer for name, answer in now.items() if answer != wanted}:
                raise NotLanded(f"names are answered with {wrong}, not {wanted or 'nothing'}")
        except BaseException:
            self._changes.remove(change)
            self._write()
            raise
        return {"mechanism": HOSTS, "before": before, "with": now}

    async def rename(self, change: Misnaming) -> JSON:
        self._changes.remove(change)
        self._write()
        if self.supervisor.gone:
            return {"ended": "with the lab"}
        now, right = await self._look_up(change), self._answers()
        if wrong := {name: answer for name, answer in now.items() if answer != right.get(name)}:
            raise NotLanded(f"names are still answered with {wrong}")
        return {"after": now}

    def _answers(self) -> dict[str, str | None]:
        answers: dict[str, str | None] = dict(self.recipe.addresses)
        for change in self._changes:
            answers.update(dict.fromkeys(change.names, self.recipe.addresses.get(change.answer or "")))
        return answers

    def _write(self) -> None:
        """In place, since the lab has this very file mounted: for an instant old lines may stand behind new ones."""
        changed = {name for change in self._changes for name in change.names}
        kept = [line for line in self._whole.splitlines() if line.split()[1] not in changed]
        answers = self._answers()
        lines = [*kept, *(f"{answers[name]}\t{name}" for name in sorted(changed) if answers[name])]
        text = "".join(f"{line}\n" for line in lines).encode()
        with self._hosts.open("rb+", buffering=0) as file:
            file.write(text)
            file.truncate(len(text))

    async def _look_up(self, change: Misnaming) -> dict[str, str | None]:
        """Ask as a member does, by a process of the lab."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        said = b""
        try:
            argv = [sys.executable, "-I", "-S", "-c", LOOK_UP, *change.names]
            node = next(iter(self.recipe.addresses))
            started = await self.supervisor.start(node, argv, {}, str(self.recipe.folder), writer)
            os.close(writer)
            writer = -1
            try:
                with anyio.move_on_after(WITHIN):
                    while True:
                        await anyio.wait_readable(reader)
                        if not (chunk := os.read(reader, 4096)):
                            break
                        said += chunk
            finally:
                os.close(started.pidfd)
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)
        try:
            return dict(json.loads(said))
        except ValueError as error:
            raise NotLanded(f"nobody could be asked for a name: {said.decode(errors='replace')}") from error


class NamingFace(Face):
    """The target has Names."""

    async def misname(self, change: Misnaming) -> JSON:
        return await self.fitting(Naming).misname(change)

    async def rename(self, change: Misnaming) -> JSON:
        return await self.fitting(Naming).rename(change)


Naming.face = NamingFace
