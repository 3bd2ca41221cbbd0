"""What members say can be waited for, from the moment of listening on."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from chaos.api import Launch
from chaos.drivers.process import Process
from chaos.talk import Heard, Hears
from chaos.testing import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]

COUNTER = """
    import itertools, time
    from chaos.inside import emit, hello
    hello("counter", role="program")
    for number in itertools.count():
        emit("number.counted", number=number)
        emit("other.thing")
        time.sleep(0.01)
"""


async def test_events_are_heard_from_then_on_and_only_of_the_kinds_asked_for(stage: Recorder, launch: Make) -> None:
    async with Process().open(launch({"counter": COUNTER}, lab=False), stage) as target:
        assert isinstance(target, Hears)
        await target.wait_ready()
        before = await stage.until("number.counted", times=3)
        with target.listen("number.counted") as heard:
            first = await heard.next(lambda e: True, 10.0)
            later = await heard.next(lambda e: e.get("number") >= before.get("number") + 5, 10.0)
            assert first is not None
            assert later is not None
            assert first.seq > before.seq
            assert later.get("number") == before.get("number") + 5
            assert await heard.next(lambda e: e.kind == "other.thing", 0.1) is None


async def test_what_never_comes_is_waited_for_no_longer_than_asked() -> None:
    began = anyio.current_time()
    assert await Heard().next(lambda e: True, 0.05) is None
    assert 0.05 <= anyio.current_time() - began < 5
