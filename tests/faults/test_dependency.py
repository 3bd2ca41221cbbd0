"""A store that answers badly, on a target without processes."""

from __future__ import annotations

import anyio
import pytest

from chaos.api import Selector
from chaos.errors import HealFailed, NotLanded
from chaos.faults.dependency._resp import Refused, Resp, encoded
from chaos.faults.dependency.full import Full
from chaos.faults.dependency.stampede import Stampede
from chaos.faults.dependency.wrong_values import WrongValues
from chaos.testing import FakeTarget

from .conftest import Hit

pytestmark = pytest.mark.anyio
ONE = Selector(nodes=("n1",))


async def test_all_keys_that_match_are_gone_at_once(target: FakeTarget, hit: Hit) -> None:
    target.keys |= {b"session:1": b"kept"}
    fault = Stampede(members=ONE, keys="f:*")
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert target.keys == {b"session:1": b"kept"}
        assert (landing.evidence["found"], landing.evidence["removed"]) == (3, 3)
        assert landing.evidence["such_as"] == ["f:0", "f:1", "f:2"]


async def test_where_no_key_matches_nothing_landed(target: FakeTarget, hit: Hit) -> None:
    fault = Stampede(members=ONE, keys="g:*")
    with pytest.raises(NotLanded, match=r"0 keys match g:\*"):
        async with fault.inject(target, *hit(fault, target)):
            pass


async def test_values_are_wrong_while_it_stands_and_keep_their_length_and_expiry(target: FakeTarget, hit: Hit) -> None:
    target.foreign[b"f:list"] = b""
    target.expiries[b"f:1"] = 5000
    before, fault = dict(target.keys), WrongValues(members=ONE, keys="f:*", most=3)
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert landing.evidence["changed"] == 3
        assert all(len(target.keys[k]) == len(v) and target.keys[k] != v for k, v in before.items())
        assert target.expiries == {b"f:1": 5000}
        assert landing.evidence["such_as"][0]["was"] == before[b"f:0"].hex()
    assert target.keys == before
    assert landing.healed == {"restored": 3, "written_by_others": 0}


async def test_what_somebody_has_written_since_is_left_alone(target: FakeTarget, hit: Hit) -> None:
    fault = WrongValues(members=ONE, most=2)
    async with fault.inject(target, *hit(fault, target)) as landing:
        target.keys[b"f:0"] = b"newer"
        del target.keys[b"f:1"]
    assert target.keys == {b"f:0": b"newer", b"f:2": b"value 2"}
    assert landing.healed == {"restored": 0, "written_by_others": 2}


async def test_values_that_cannot_be_put_back_are_no_heal(target: FakeTarget, hit: Hit) -> None:
    fault = WrongValues(members=ONE)
    with pytest.raises(HealFailed, match="f:0 is not as it was") as caught:
        async with fault.inject(target, *hit(fault, target)):
            target.numb = True
    assert "write the 3 values of link store again" in str(caught.value.undo)


async def test_a_target_that_writes_some_anew_at_once_was_hit_all_the_same(hit: Hit) -> None:
    class Healing(FakeTarget):
        def obey(self, words: list[bytes]) -> bytes:
            answer = super().obey(words)
            self.keys |= {b"f:1": b"value 1"}
            return answer

    target, fault = Healing(), WrongValues(members=ONE)
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert (landing.evidence["changed"], landing.evidence["written_by_others"]) == (2, 1)
    assert landing.healed == {"restored": 2, "written_by_others": 1}


async def test_what_was_changed_before_a_refusal_is_put_back(hit: Hit) -> None:
    class Refusing(FakeTarget):
        def obey(self, words: list[bytes]) -> bytes:
            return b"-ERR no\r\n" if words[:2] == [b"GET", b"f:2"] else super().obey(words)

    target = Refusing()
    before, fault = dict(target.keys), WrongValues(members=ONE)
    with pytest.raises(NotLanded, match="the server refuses: ERR no"):
        async with fault.inject(target, *hit(fault, target)):
            pass
    assert target.keys == before


async def test_a_full_store_refuses_what_needs_memory_until_it_is_healed(target: FakeTarget, hit: Hit) -> None:
    before, fault = dict(target.config), Full(members=ONE)
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert landing.evidence["refused"].startswith("OOM")
        assert target.config == {b"maxmemory": b"1", b"maxmemory-policy": b"noeviction"}
    assert target.config == before
    assert landing.healed["settings"]["maxmemory-policy"] == "allkeys-lru"


@pytest.mark.parametrize(("touched", "met"), [(True, 1), (False, 0)])
async def test_a_store_that_nobody_needed_while_it_was_wrong_proves_nothing(
    target: FakeTarget, hit: Hit, touched: bool, met: int
) -> None:
    for fault, call in ((Full(members=ONE), [b"SET", b"f:9", b"x"]), (WrongValues(members=ONE), [b"GET", b"f:0"])):
        async with fault.inject(target, *hit(fault, target)) as landing:
            if touched:
                target.obey(call)
        assert landing.met == met


async def test_where_a_store_does_not_count_nobody_knows_whether_it_was_needed(hit: Hit) -> None:
    class Silent(FakeTarget):
        def obey(self, words: list[bytes]) -> bytes:
            return b"-ERR unknown command\r\n" if words[0] == b"INFO" else super().obey(words)

    for fault in (Full(members=ONE), WrongValues(members=ONE)):
        target = Silent()
        async with fault.inject(target, *hit(fault, target)) as landing:
            pass
        assert landing.met is None


async def test_a_store_that_has_no_settings_cannot_be_filled(hit: Hit) -> None:
    class Embedded(FakeTarget):
        def obey(self, words: list[bytes]) -> bytes:
            return b"-ERR unknown command\r\n" if words[0] == b"CONFIG" else super().obey(words)

    target, fault = Embedded(), Full(members=ONE)
    with pytest.raises(NotLanded, match="the server refuses: ERR unknown command"):
        async with fault.inject(target, *hit(fault, target)):
            pass


async def test_a_server_that_goes_while_it_is_wrong_takes_that_with_it(target: FakeTarget, hit: Hit) -> None:
    for fault in (WrongValues(members=ONE), Full(members=ONE)):
        gone = FakeTarget()
        async with fault.inject(gone, *hit(fault, gone)) as landing:
            for member in gone.members():
                gone.end(member.name)
        assert "nobody listens" in landing.healed["gone"]


class Script:
    """Implements Line: says what it was given, a byte at a time."""

    def __init__(self, *answers: bytes) -> None:
        self.left = [bytes((byte,)) for answer in answers for byte in answer]

    def about(self) -> dict[str, object]:
        return {}

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()

    async def receive(self, within: float) -> bytes:
        await anyio.lowlevel.checkpoint()
        return self.left.pop(0)


async def test_answers_are_read_however_they_arrive() -> None:
    said = b"+OK\r\n:42\r\n$3\r\na\r\n\r\n$-1\r\n*2\r\n$1\r\nx\r\n*1\r\n:1\r\n*-1\r\n-ERR no\r\n"
    redis = Resp(Script(said))
    assert [await redis("X") for _ in range(6)] == [b"OK", 42, b"a\r\n"[:3], None, [b"x", [1]], None]
    with pytest.raises(Refused, match="ERR no"):
        await redis("X")
    with pytest.raises(NotLanded, match="no RESP"):
        await Resp(Script(b"HTTP/1.1 400\r\n"))("X")


def test_a_call_is_an_array_of_strings() -> None:
    assert encoded(("SET", b"\x00", 7)) == b"*3\r\n$3\r\nSET\r\n$1\r\n\x00\r\n$1\r\n7\r\n"
