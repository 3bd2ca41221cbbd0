"""Frames and calls, against peers that close, stall and talk nonsense."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import anyio
import pytest

from targets.trainer import defects
from targets.trainer.settings import Address, Settings
from targets.trainer.wire import (
    Budget,
    Caller,
    Frame,
    Garbled,
    Line,
    Refused,
    Unreachable,
    decode_header,
    encode,
    header_length,
)
from targets.trainer.wire_async import AsyncCaller

Serve = Callable[[int, Line], None]  # the number of the connection, and its line


@contextmanager
def serving(serve: Serve) -> Iterator[Address]:
    """A server that hands each connection to `serve` and closes it afterwards."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        count = 0
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            count += 1
            line = Line(stream)
            try:
                serve(count, line)
            except OSError:
                pass
            finally:
                line.close()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield Address(*listener.getsockname()[:2])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def echo(_: int, line: Line) -> None:
    while True:
        call = line.receive()
        line.send({"id": call["id"], "ok": True, "said": call["word"]}, call.body[::-1])


def lose_the_first(count: int, line: Line) -> None:
    """Take the first call and close without an answer."""
    if count == 1:
        line.receive()
    else:
        echo(count, line)


def refuse(_: int, line: Line) -> None:
    call = line.receive()
    line.send({"id": call["id"], "ok": False, "error": "held", "holder": "x"})


def test_a_frame_survives_the_wire_whole() -> None:
    body = bytes(range(256)) * 4000  # more than any buffer on the way
    with serving(echo) as address, closing(Line.connect(address)) as line:
        line.send({"op": "say", "id": 1, "word": "größe"}, body)
        assert line.receive() == Frame({"id": 1, "ok": True, "said": "größe"}, body[::-1])


def test_a_frame_without_a_body_says_nothing_of_one() -> None:
    data = encode({"op": "x"})
    assert decode_header(data[4:]) == ({"op": "x"}, 0)
    assert header_length(data[:4]) == len(data) - 4


@pytest.mark.parametrize("text", [b"[]", b"nonsense", b'{"body":-1}', b'{"body":"x"}', b'{"body":99999999999}'])
def test_a_header_that_is_none_is_told(text: bytes) -> None:
    with pytest.raises(Garbled):
        decode_header(text)


def test_an_absurd_length_is_told_before_memory_is_spent() -> None:
    with pytest.raises(Garbled):
        header_length(struct.pack(">I", 1 << 31))


def test_a_call_is_answered() -> None:
    with serving(echo) as address:
        caller = Caller(address, "m")
        for word in ("a", "b"):
            reply = caller.call("say", word=word, body=b"123")
            assert (reply["said"], reply.body) == (word, b"321")
        caller.close()


def test_a_call_whose_answer_was_lost_is_made_again_on_a_new_connection() -> None:
    with serving(lose_the_first) as address:
        caller = Caller(address, "m")
        assert caller.call("say", word="again")["said"] == "again"
        caller.close()


def test_a_refusal_is_not_retried() -> None:
    with serving(refuse) as address:
        caller = Caller(address, "m")
        with pytest.raises(Refused) as caught:
            caller.call("take")
        caller.close()
    assert (caught.value.error, caught.value.fields["holder"]) == ("held", "x")


def test_a_deadline_bounds_all_tries() -> None:
    with serving(lambda _, line: time.sleep(0.02)) as address:
        caller = Caller(address, "m", try_timeout=0.05)
        begun = time.monotonic()
        with pytest.raises(Unreachable):
            caller.call("say", word="x", deadline=0.15)
        assert time.monotonic() - begun < 1.0


@pytest.mark.parametrize("serve", [echo, lose_the_first])
def test_a_task_is_answered_too(serve: Serve) -> None:
    async def call(address: Address) -> Frame:
        return await AsyncCaller(address, "m").call("say", word="a", body=b"12")

    with serving(serve) as address:
        reply = anyio.run(call, address)
    assert (reply["said"], reply.body) == ("a", b"21")


def test_a_task_gives_up_at_its_deadline_and_takes_no_for_an_answer() -> None:
    async def call(address: Address, deadline: float) -> Frame:
        return await AsyncCaller(address, "m", try_timeout=0.05).call("say", deadline=deadline)

    with serving(refuse) as address, pytest.raises(Refused, match="held"):
        anyio.run(call, address, 1.0)
    with serving(lambda _, line: None) as address, pytest.raises(Unreachable):
        anyio.run(call, address, 0.15)


class Clock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_budget_is_one_deadline_and_one_number_of_retries_for_all_who_share_it() -> None:
    clock = Clock()
    budget = Budget(10.0, 3, clock=clock)
    assert budget.allows(0.1)
    budget.charge(1)
    assert (budget.retries, budget.spent) == (1, 2)
    clock.now = 9.5
    assert not budget.allows(0.5)
    assert budget.allows(0.4)
    assert not budget.allows(0.0)  # none is left


def test_calls_of_one_round_share_its_retries() -> None:
    with serving(lambda _, line: None) as address:  # nobody is ever answered
        caller, budget = Caller(address, "m"), Budget(10.0, 3)
        with pytest.raises(Unreachable):
            caller.call("say", budget=budget)
        assert budget.spent == 3
        with pytest.raises(Unreachable):
            caller.call("say", budget=budget)
        assert budget.spent == 3
        caller.close()


def sick(times: int) -> Serve:
    """The disk is in trouble for the first so many calls."""
    left = [times]

    def serve(_: int, line: Line) -> None:
        while True:
            call = line.receive()
            left[0] -= 1
            answer = {"ok": True} if left[0] < 0 else {"ok": False, "error": "storage", "reason": "EIO"}
            line.send({"id": call["id"], **answer})

    return serve


def test_trouble_with_a_disk_is_retried_under_a_budget_and_told_once_that_is_spent() -> None:
    settings = Settings()
    with serving(sick(2)) as address:
        caller = Caller(address, "m")
        budget = Budget.of(settings, 10.0, 5)
        assert caller.call("take", budget=budget)["ok"]
        assert budget.spent == 2
        caller.close()
    with serving(sick(2)) as address:
        caller = Caller(address, "m")
        with pytest.raises(Refused, match="storage"):
            caller.call("take", budget=Budget.of(settings, 10.0, 1))
        caller.close()


def test_deliberate_bugs_retry_nothing_or_without_end() -> None:
    clock = Clock()
    assert not Budget.of(Settings(defect=defects.NO_RETRY), 10.0, 5, clock=clock).allows(0.1)
    unbounded = Budget.of(Settings(defect=defects.RETRY_UNBOUNDED), 10.0, 0, clock=clock)
    clock.now = 1e6
    assert unbounded.allows(0.4)
    assert not Budget.of(Settings(), 10.0, 0).allows(0.1)


def test_a_first_try_is_made_however_late_the_round_is() -> None:
    clock = Clock()
    budget = Budget.of(Settings(), 1.0, 5, clock=clock)
    clock.now = 5.0
    with serving(echo) as address:
        caller = Caller(address, "m")
        assert caller.call("say", word="late", budget=budget)["said"] == "late"
        caller.close()
