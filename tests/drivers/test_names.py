"""Names of nodes, as members of the lab look them up."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from chaos.api import Launch, Selection, Selector
from chaos.drivers.process import Process
from chaos.errors import NotLanded
from chaos.faults.network.dns import Dns
from chaos.testing import Recorder
from chaos.ways import Misnaming, Names

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]

NODES = [{"name": "n-a"}, {"name": "n-b"}]
ASKER = """
    import os, socket
    from chaos import inside
    inside.hello("a", role="program")
    inside.emit("a.ready")
    for line in os.fdopen(os.open(os.environ["CHAOS_DATA"] + "/ask", os.O_RDWR)):
        try:
            answer = socket.gethostbyname(line.strip())
        except OSError as error:
            answer = type(error).__name__
        inside.emit("a.answer", answer=answer)
"""


class Asker:
    """A member that looks up what it is told to."""

    def __init__(self, stage: Recorder, launch: Launch) -> None:
        self.stage, self.pipe, self.asked = stage, launch.folder / "data" / "ask", 0

    async def ask(self, name: str) -> Any:
        with self.pipe.open("w") as pipe:
            pipe.write(f"{name}\n")
        self.asked += 1
        return (await self.stage.until("a.answer", times=self.asked)).data["answer"]


@pytest.mark.parametrize("answer", [None, "n-a"])
async def test_a_running_member_gets_the_wrong_answer_and_after_the_heal_the_right_one(
    stage: Recorder, launch: Make, answer: str | None
) -> None:
    fault = Dns(members=Selector(nodes=("n-b",)), answer=answer)
    plan = msgspec.structs.replace(launch({"a": ASKER}, node="n-", nodes=NODES), faults=(fault,))
    (plan.folder / "data").mkdir(parents=True)
    os.mkfifo(plan.folder / "data" / "ask")
    async with Process().open(plan, stage) as target:
        await target.wait_ready()
        assert isinstance(target, Names)
        await stage.until("a.ready")
        asker = Asker(stage, plan)
        assert await asker.ask("n-b") == "10.77.0.2"
        wrong = "10.77.0.1" if answer else None
        async with fault.inject(target, Selection(members=(), nodes=("n-b",))) as landing:
            assert landing.evidence == {
                "mechanism": "/etc/hosts", "before": {"n-b": "10.77.0.2"}, "with": {"n-b": wrong}
            }  # fmt: skip
            assert await asker.ask("n-b") == (wrong or "gaierror")
            assert await asker.ask("n-a") == "10.77.0.1"
            assert await asker.ask("localhost") == "127.0.0.1"
        assert landing.healed == {"after": {"n-b": "10.77.0.2"}}
        assert await asker.ask("n-b") == "10.77.0.2"
        with pytest.raises(NotLanded, match="no such node: nowhere"):
            await target.misname(Misnaming(names=("nowhere",)))


async def test_without_a_lab_it_is_refused(stage: Recorder, launch: Make) -> None:
    plan = launch({"a": "import signal; signal.pause()"}, lab=False, node="n-", nodes=NODES)
    plan = msgspec.structs.replace(plan, faults=(Dns(members=Selector(nodes=("n-b",))),))
    async with Process().open(plan, stage) as target:
        assert "without the lab" in target.mechanisms()["names-refused"]  # type: ignore[attr-defined]
