"""The process driver against real processes, in the lab and without it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from chaos.api import Files, Launch, Links, Member, Signals
from chaos.drivers.process import Process, events, kernel
from chaos.errors import NotLanded, TargetError
from chaos.testing import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]

SLEEPER = """
    import signal
    from chaos import inside
    inside.hello("a", role="program", rank=3)
    inside.emit("it.runs", answer=42)
    signal.pause()
"""
FORKER = """
    import os, signal
    from chaos import inside
    inside.hello("agent", role="agent")
    if os.fork() == 0:
        inside.emit("child.anonymous")
        inside.hello("worker", role="worker", rank=0)
        inside.emit("worker.runs")
        signal.pause()
    os.wait()
    inside.emit("worker.buried")
    signal.pause()
"""


@pytest.fixture(params=[True, False], ids=["lab", "no-lab"])
def lab(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def exists(member: Member) -> bool:
    return Path(f"/proc/{member.pid}").exists()


def event_socket(member: Member) -> Path:
    """Where a member was told to connect to."""
    variables = Path(f"/proc/{member.pid}/environ").read_text().split("\0")
    return Path(dict(v.partition("=")[::2] for v in variables)["CHAOS_EVENTS"])


async def test_a_member_is_started_says_hello_and_ends_with_the_block(stage: Recorder, launch: Make, lab: bool) -> None:
    async with Process().open(launch({"a": SLEEPER}, lab=lab), stage) as target:
        await target.wait_ready()
        event = await stage.until("it.runs")
        assert (event.source, event.data) == ("a", {"answer": 42})
        (member,) = target.members()
        assert (member.name, member.role, member.rank) == ("a", "program", 3)
        assert exists(member)
    exited = await stage.until("member.exited")
    assert exited.data["code"] == -signal.SIGTERM
    assert exited.data["expected"] is True
    assert not exists(member)


async def test_what_a_target_can_do_depends_on_the_lab(stage: Recorder, launch: Make, lab: bool) -> None:
    nodes = [{"name": "n-a"}]
    async with Process().open(launch({"a": SLEEPER}, lab=lab, node="n-", nodes=nodes), stage) as target:
        assert isinstance(target, Signals)
        assert isinstance(target, Files)
        assert isinstance(target, Links) == lab
        await target.wait_ready()


async def test_a_target_without_members_needs_no_lab_and_never_ends(tmp_path: Path, stage: Recorder) -> None:
    nothing = Launch(spec={"members": [], "nodes": []}, settings={}, folder=tmp_path, base=tmp_path, points=())
    before = kernel.children()
    async with Process().open(nothing, stage) as target:
        await target.wait_ready()
        assert kernel.children() == before
        assert target.members() == ()
        assert isinstance(target, Files)
        assert target.data_root().is_dir()
        with anyio.move_on_after(0.01) as limit:
            await target.wait_finished()
        assert limit.cancelled_caught


async def test_a_forked_child_becomes_a_member_when_it_says_hello(stage: Recorder, launch: Make, lab: bool) -> None:
    async with Process().open(launch({"agent": FORKER}, lab=lab), stage) as target:
        await stage.until("worker.runs", "worker")
        anonymous = await stage.until("child.anonymous")
        assert anonymous.source == "agent"
        agent, worker = target.members()
        assert (agent.name, worker.name, worker.rank) == ("agent", "worker", 0)
        assert isinstance(target, Signals)
        await target.signal(worker, signal.SIGKILL)
        exited = await stage.until("member.exited", "worker")
        assert "expected" not in exited.data
        assert exited.data["code"] in (-signal.SIGKILL, None)  # None before Linux 6.15: it is no child of ours
        await stage.until("worker.buried")
        assert [m.name for m in target.members()] == ["agent"]
        assert target.state(worker) == "X"
        with pytest.raises(NotLanded):
            await target.signal(worker, signal.SIGKILL)


async def test_peers_are_known_on_an_older_kernel_too(
    stage: Recorder, launch: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SO_PEERPIDFD", 9999)
    async with Process().open(launch({"agent": FORKER}), stage) as target:
        await stage.until("worker.runs", "worker")
        assert [m.name for m in target.members()] == ["agent", "worker"]


async def test_a_frozen_member_has_state_t_and_runs_again(stage: Recorder, launch: Make, lab: bool) -> None:
    threads = "import threading; threading.Thread(target=signal.pause).start()"
    source = SLEEPER.replace("signal.pause()", f"{threads}\n    signal.pause()")
    async with Process().open(launch({"a": source}, lab=lab), stage) as target:
        await stage.until("it.runs")
        (member,) = target.members()
        assert isinstance(target, Signals)
        await target.signal(member, signal.SIGSTOP)
        assert await target.wait_state(member, "T", 5) == "T"
        with pytest.raises(NotLanded, match="state T"):
            await target.wait_state(member, "RSD", 0.02)
        await target.signal(member, signal.SIGCONT)
        assert await target.wait_state(member, "RSD", 5) in "RSD"
        await target.signal(member, signal.SIGSTOP)  # and what is frozen at the end ends as well
    assert not exists(member)


async def test_a_member_waits_at_an_armed_failpoint_while_its_threads_go_on(
    stage: Recorder, launch: Make, lab: bool
) -> None:
    source = """
        import threading
        from chaos import inside
        inside.hello("a", role="program")
        def stand():
            inside.point("gate", step=1)
            inside.emit("gate.passed")
        thread = threading.Thread(target=stand)
        thread.start()
        inside.point("unarmed")
        for n in range(3): inside.emit("side.work", n=n)
        thread.join()
    """
    stage.held["gate"] = anyio.Event()
    async with Process().open(launch({"a": source}, lab=lab, points=("gate",)), stage) as target:
        reached = await stage.until("point.reached")
        assert reached.data == {"name": "gate", "step": 1}
        await stage.until("side.work", times=3)
        assert not [e for e in stage.events if e.kind == "gate.passed"]
        stage.held["gate"].set()
        await stage.until("gate.passed")
        assert (await target.wait_finished()).code == 0


async def test_a_member_killed_at_a_failpoint_is_not_waited_for(stage: Recorder, launch: Make) -> None:
    source = 'from chaos import inside; inside.hello("a", role="program"); inside.point("gate")'
    stage.held["gate"] = anyio.Event()
    async with Process().open(launch({"a": source}, points=("gate",)), stage) as target:
        await stage.until("point.reached")
        (member,) = target.members()
        assert isinstance(target, Signals)
        await target.signal(member, signal.SIGKILL)
        assert (await target.wait_finished()).code == -signal.SIGKILL


async def test_members_start_once_those_before_them_are_ready(stage: Recorder, launch: Make) -> None:
    source = """
        import sys
        from chaos import inside
        inside.hello("{0}", role="program")
        sys.stdin.read()
        inside.emit("{0}.ready")
    """
    plan = launch({name: source.format(name) for name in ("first", "second")}, ready={"event": "second.ready"})
    plan.spec["members"][0]["ready"] = {"event": "first.ready", "within": "10s"}
    async with Process().open(plan, stage) as target:
        await target.wait_ready()
        kinds = [(e.source, e.kind) for e in stage.events if e.kind != "member.exited"]
        assert kinds.index(("first", "first.ready")) < kinds.index(("second", "member.started"))
        assert ("second", "second.ready") in kinds


async def test_a_member_that_exits_before_it_is_ready_is_told_with_its_last_words(
    stage: Recorder, launch: Make, lab: bool
) -> None:
    plan = launch({"a": "raise SystemExit('no such thing as a free port')"}, lab=lab)
    plan.spec["members"][0]["ready"] = {"event": "a.ready"}
    with pytest.raises(TargetError, match=r"a exited with 1 before it was ready.*no such thing as a free port"):
        async with Process().open(plan, stage) as target:
            await target.wait_ready()


async def test_a_target_that_ends_before_it_is_ready_is_an_error(stage: Recorder, launch: Make) -> None:
    plan = launch({"a": "print('nothing to do')"}, lab=False, ready={"event": "work.begun"}, ends={"role": "program"})
    with pytest.raises(TargetError, match=r"a exited with 0 before it was ready; last lines: nothing to do"):
        async with Process().open(plan, stage) as target:
            await target.wait_ready()


async def test_a_member_that_never_gets_ready_is_an_error_after_its_limit(stage: Recorder, launch: Make) -> None:
    plan = launch({"a": SLEEPER}, lab=False, ready={"event": "never.comes", "within": "200ms"})
    with pytest.raises(TargetError, match=r"no event never\.comes within 0\.2 s"):
        async with Process().open(plan, stage) as target:
            await target.wait_ready()


async def test_a_command_that_does_not_exist_is_an_error_with_its_name(
    stage: Recorder, launch: Make, lab: bool
) -> None:
    plan = launch({"a": ""}, lab=lab)
    plan.spec["members"][0]["command"] = ["/no/such/program"]
    with pytest.raises(TargetError, match=r"/no/such/program cannot be started: .*No such file"):
        async with Process().open(plan, stage) as target:
            await target.wait_ready()


async def test_output_goes_to_the_log_and_its_json_lines_become_events(stage: Recorder, launch: Make) -> None:
    source = """
        import sys
        print("plain")
        print('{"kind": "step.completed", "step": 7}', flush=True)
        print("warning", file=sys.stderr)
        print('{"broken": "kind"')
    """
    plan = launch({"a": source}, lab=False)
    async with Process().open(plan, stage) as target:
        event = await stage.until("step.completed")
        assert (event.source, event.data) == ("a", {"step": 7})
        await stage.until_line("a", '{"broken": "kind"')
        assert (await target.wait_finished()).code == 0
    log = (plan.folder / "logs" / "a.log").read_text()
    assert "plain\n" in log
    assert "warning\n" in log


async def test_rubbish_on_the_event_socket_is_told_and_harms_nobody(stage: Recorder, launch: Make) -> None:
    source = r"""
        import os, socket
        from chaos import inside
        inside.hello("a", role="program")
        rude = socket.socket(socket.AF_UNIX)
        rude.connect(os.environ["CHAOS_EVENTS"])
        rude.sendall(b'{"k": 5}\nnot json\n\xff\xfe\n{"k":"rude.event","t":1e30}\n' + b"x" * 3_000_000 + b"\n")
        rude.sendall(b'{"k": "polite.event", "d": {"loss": NaN}}\n')
        inside.emit("still.there")
    """
    async with Process().open(launch({"a": source}, lab=False), stage):
        event = await stage.until("polite.event")
        assert event.data == {"loss": "NaN"}
        assert len([e for e in stage.events if e.kind == "target.malformed"]) == 5
        await stage.until("still.there", "a")


async def test_stacks_are_dumped_into_the_log_that_is_named(stage: Recorder, launch: Make, lab: bool) -> None:
    plan = launch({"agent": FORKER}, lab=lab)
    async with Process().open(plan, stage) as target:
        await stage.until("worker.runs")
        assert set(await target.dump_stacks()) == {"agent", "worker"}
        event = await stage.until("stacks.dumped")
        assert event.data["logs"] == {"agent": "logs/agent.log", "worker": "logs/agent.log"}
        await stage.until_line("agent", "most recent call first", times=2)


async def test_members_that_end_at_once_are_told_one_by_one(stage: Recorder, launch: Make, lab: bool) -> None:
    plan = launch(dict.fromkeys("abcdef", ""), lab=lab)
    for member in plan.spec["members"]:
        member["command"] = ["false" if member["name"] == "c" else "true"]
    async with Process().open(plan, stage) as target:
        finished = await target.wait_finished()
        assert (finished.code, finished.member) == (1, "c")
    exits = {e.source: e.data["code"] for e in stage.events if e.kind == "member.exited"}
    assert exits == {**dict.fromkeys("abdef", 0), "c": 1}


async def test_the_target_has_ended_when_the_deciding_role_exits(stage: Recorder, launch: Make) -> None:
    plan = launch({"a": SLEEPER, "leader": "raise SystemExit(3)"}, lab=False, ends={"role": "leader", "codes": [0, 3]})
    plan.spec["members"][1]["role"] = "leader"
    async with Process().open(plan, stage) as target:
        finished = await target.wait_finished()
        assert (finished.code, finished.member) == (3, "leader")


async def test_the_target_has_ended_when_nobody_of_the_deciding_role_is_left(stage: Recorder, launch: Make) -> None:
    dead = "raise SystemExit(75)"
    ends = {"role": "leader", "codes": [0, 1]}
    plan = launch({"a": SLEEPER, "first": dead, "second": dead}, lab=False, ends=ends)
    for member in plan.spec["members"][1:]:
        member["role"] = "leader"
    async with Process().open(plan, stage) as target:
        assert (await target.wait_finished()).code == 75
        assert {member.name for member in target.members()} == {"a"}


async def test_a_member_that_ignores_sigterm_is_killed_after_the_grace(stage: Recorder, launch: Make) -> None:
    source = """
        import signal
        from chaos import inside
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        inside.emit("it.runs")
        while True: signal.pause()
    """
    async with Process().open(launch({"a": source}, **{"stop-grace": "50ms"}), stage):
        await stage.until("it.runs")
    assert (await stage.until("member.exited")).data["code"] == -signal.SIGKILL


async def test_a_run_folder_with_a_very_long_path_works(
    stage: Recorder, launch: Make, lab: bool, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    plan = launch({"a": SLEEPER}, lab=lab, folder=deep)
    async with Process().open(plan, stage) as target:
        await stage.until("it.runs", "a")
        (member,) = target.members()
        link = event_socket(member)
        assert len(os.fsencode(link)) < 108
    assert not link.parent.is_symlink()


async def test_what_a_member_forgets_in_its_temporary_folder_is_not_left_on_the_host(
    stage: Recorder, launch: Make, lab: bool, tmp_path: Path
) -> None:
    source = """
        import tempfile
        from chaos import inside
        inside.hello("a", role="program")
        inside.emit("path.made", path=tempfile.mkdtemp(prefix="forgotten-"))
    """
    async with Process().open(launch({"a": source}, lab=lab), stage):
        made = Path((await stage.until("path.made")).data["path"])
    assert made.name.startswith("forgotten-")
    assert lab or made.parent == tmp_path / "run" / "tmp"
    assert os.access(made, os.F_OK) is not lab


async def test_a_member_knows_its_node_its_address_and_its_peers(stage: Recorder, launch: Make) -> None:
    source = """
        import os, socket
        from chaos import inside
        inside.hello("a", role="program")
        inside.emit("me.is", host=socket.gethostname(), address=os.environ["CHAOS_ADDRESS"],
                    peer=socket.gethostbyname("n-b"), uid=os.getuid(), shared=os.listdir("/dev/shm"),
                    ipv6=open("/proc/net/if_inet6").read())
    """
    nodes = [{"name": "n-a"}, {"name": "n-b"}]
    async with Process().open(launch({"a": source}, node="n-", nodes=nodes), stage):
        event = await stage.until("me.is")
    assert event.data == {
        "host": "n-a", "address": "10.77.0.1", "peer": "10.77.0.2", "uid": os.getuid(), "shared": ["chaos"],
        "ipv6": "",
    }  # fmt: skip


async def test_a_flood_of_events_arrives_whole_and_in_order_while_logs_flow(stage: Recorder, launch: Make) -> None:
    source = """
        from chaos import inside
        inside.hello("a", role="program")
        for n in range(5000):
            inside.emit("n.counted", n=n)
            print("x" * 500)
        inside.emit("flood.ended")
    """
    plan = launch({"a": source}, lab=False)
    async with Process().open(plan, stage) as target:
        await stage.until("flood.ended")
        assert [e.data["n"] for e in stage.events if e.kind == "n.counted"] == list(range(5000))
        assert (await target.wait_finished()).code == 0
    assert (plan.folder / "logs" / "a.log").stat().st_size == 5000 * 501


async def test_all_that_a_member_said_is_told_before_its_exit(stage: Recorder, launch: Make, lab: bool) -> None:
    source = """
        import os, signal
        from chaos import inside
        inside.hello("a", role="program")
        for n in range(300): inside.emit("last.words", n=n)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    async with Process().open(launch({"a": source}, lab=lab), stage) as target:
        assert (await target.wait_finished()).code == -signal.SIGKILL
    kinds = [event.kind for event in stage.events]
    assert kinds.count("last.words") == 300
    assert kinds.index("member.exited") == len(kinds) - 1


async def test_a_program_that_takes_another_name_still_ends_as_itself(stage: Recorder, launch: Make, lab: bool) -> None:
    source = """
        from chaos import inside
        inside.hello("a", role="program")
        inside.hello("harness\\ud800\\n" + "x" * 3000, role="other")
        inside.emit("member.exited", member="a", code=0)
        raise SystemExit(3)
    """
    ends = {"role": "program", "codes": [3]}
    async with Process().open(launch({"a": source}, lab=lab, ends=ends), stage) as target:
        await target.wait_ready()
        finished = await target.wait_finished()
        assert (finished.member, finished.code) == ("a", 3)
    assert [e.get("code") for e in stage.events if e.kind == "member.exited"] == [3]
    assert "only the harness says member.exited" in [e.get("reason") for e in stage.events]
