"""The harness's end of `init.py`: start it, ask it for members and cuts, hear of exits, and end it."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from chaos.api import JSON
from chaos.drivers.process.kernel import PR_SET_CHILD_SUBREAPER, children, syscall
from chaos.errors import NotLanded, TargetError, Unsupported

START_LIMIT = 20.0  # seconds for an interpreter, namespaces and a network: some tenths on an idle machine
END_LIMIT = 5.0


class Started:
    """A member that was executed: a file descriptor that means it and no other, and its exit code once `reaped`."""

    def __init__(self, pidfd: int) -> None:
        self.pidfd = pidfd
        self.reaped = anyio.Event()
        self.code: int | None = None


class _Reply:
    """What a request waits for."""

    def __init__(self) -> None:
        self.arrived = anyio.Event()
        self.content: JSON = {}
        self.started: Started | None = None
        self.fd = -1  # that came with it and means no process


class Supervisor:
    """One running `init.py`. When it is gone, so is everything it started."""

    def __init__(self, program: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._program = program
        self._control = control
        self._replies: dict[int, _Reply] = {}
        self._requests = 0
        self._ready = _Reply()
        self.gone = False
        self._children: dict[int, Started] = {}  # by process id in the lab
        self.mechanisms: dict[str, str] = {}

    async def serve(self) -> None:
        """Hand replies to those who wait, exit codes to their members; returns when the supervisor has gone."""
        while True:
            await anyio.wait_readable(self._control)
            try:
                data, fds, _, _ = socket.recv_fds(self._control, 1 << 20, 4, socket.MSG_CMSG_CLOEXEC)
            except ConnectionError:
                break
            if not data:
                break
            self._take(json.loads(data), fds)
        self.gone = True
        for reply in (*self._replies.values(), self._ready):
            reply.content = reply.content or {"error": "the lab has ended", "failed": "its first process ended"}
            reply.arrived.set()

    def _take(self, message: JSON, fds: Sequence[int]) -> None:
        if "exited" in message:
            child = self._children.pop(message["exited"], None)
            if child:  # else an orphan that it adopted
                child.code = message["code"]
                child.reaped.set()
            return
        reply = self._replies.pop(message["id"]) if "id" in message else self._ready
        reply.content = message
        if fds and "pid" in message:
            reply.started = self._children[message["pid"]] = Started(fds[0])
        elif fds:
            reply.fd = fds[0]
        reply.arrived.set()

    async def wait_ready(self) -> None:
        """Return once the lab stands; raises TargetError with the reason and the way round."""
        with anyio.move_on_after(START_LIMIT):
            await self._ready.arrived.wait()
        if "ready" not in self._ready.content:
            reason = self._ready.content.get("failed", f"nothing heard for {START_LIMIT:.0f} s")
            raise _closed(reason)
        self.mechanisms = dict(self._ready.content["ready"])

    def linkless(self, outside: str, fix: str = "") -> Unsupported:
        """Why nodes have no links here: the reason `outside` of a lab, or what the kernel of this one lacks."""
        if refused := self.mechanisms.get("links-refused"):
            return Unsupported(refused, "a kernel with CONFIG_NF_TABLES")
        return Unsupported(outside, fix)

    def first(self) -> int:
        """Process 1 of the lab, as the harness counts; NotLanded without a lab."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                status = Path(f"/proc/{name}/status").read_text()
                ids = {key: value.split() for key, _, value in map(_parted, status.splitlines())}
                if int(ids["PPid"][0]) == self._program.pid and ids["NSpid"][-1] == "1":
                    return int(name)
        raise NotLanded("there is no lab")

    async def start(
        self,
        node: str | None,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        output: int,
        dress: Mapping[str, tuple[JSON, Sequence[int]]] | None = None,
        preloaded: bool = False,
    ) -> Started:
        """Execute a program with additions to our environment; its output goes to that file descriptor. `dress` holds
        what each fitting does in its process before that, with the file descriptors it needs. `preloaded`: fork it
        from the nursery instead."""
        fds, fields = (
            [output],
            {"node": node, "argv": argv, "env": env, "cwd": cwd, "preloaded": preloaded, "dress": dict[str, JSON]()},
        )
        for name, (options, more) in (dress or {}).items():
            fields["dress"][name] = {"options": options, "fds": [len(fds) + i for i in range(len(more))]}  # type: ignore[index]
            fds += more
        reply = await self._request("start", fields, fds)
        if reply.started is None:
            raise TargetError(f"{argv[0]} cannot be started: {reply.content['error']}")
        return reply.started

    async def links(self, op: str, pairs: Sequence[tuple[str, str]]) -> JSON:
        """`cut` or `restore` packets between nodes; the proof, or NotLanded."""
        return await self.packets(op, pairs=pairs)

    async def packets(self, op: str, **fields: Any) -> JSON:
        """Have the lab's network changed; what it says, or NotLanded. Runs to its end when cancelled: it takes
        milliseconds, and else nobody would know whether the change stands."""
        with anyio.CancelScope(shield=True):
            reply = await self._request(op, fields)
        if "error" in reply.content:
            raise NotLanded(reply.content["error"])
        return dict(reply.content["result"])

    async def socket(self, node: str, kind: int, family: int = socket.AF_INET) -> socket.socket:
        """A socket of that node, to be used from here: a connection made with it goes over the node's wire."""
        with anyio.CancelScope(shield=True):  # else a descriptor that came late would stay open
            reply = await self._request("socket", {"node": node, "kind": int(kind), "family": int(family)})
        if reply.fd < 0:
            raise NotLanded(f"no socket on {node}: {reply.content.get('error')}")
        made = socket.socket(fileno=reply.fd)
        made.setblocking(False)
        return made

    async def _request(self, op: str, fields: JSON, fds: Sequence[int] = ()) -> _Reply:
        self._requests += 1
        reply = _Reply()
        if self.gone:
            reply.content = {"error": "the lab has ended"}
            return reply
        self._replies[self._requests] = reply
        message = json.dumps({"id": self._requests, "op": op, **fields}).encode()
        while True:
            try:
                socket.send_fds(self._control, [message], fds)
                break
            except BlockingIOError:
                await anyio.wait_writable(self._control)
            except ConnectionError:
                break  # `serve` sees the end too, and answers
        await reply.arrived.wait()
        return reply

    async def end(self) -> None:
        """End it and all that it holds; returns when the kernel says so. Harmless when it has ended already."""
        if self._program.returncode is not None:
            return
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        pidfd = os.pidfd_open(self._program.pid)
        try:
            with anyio.move_on_after(END_LIMIT) as limit:
                await anyio.wait_readable(pidfd)
            if limit.cancelled_caught:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                await anyio.wait_readable(pidfd)
        finally:
            os.close(pidfd)
        self._program.wait()


@asynccontextmanager
async def supervise(
    lab: bool,
    nodes: Mapping[str, str],
    folder: Path,
    alias: str,
    fittings: Mapping[str, JSON] | None = None,
    nursery: JSON | None = None,
) -> AsyncIterator[Supervisor]:
    """A supervisor for the length of the block; `alias` is a short path that leads members to `folder`. `fittings`
    are the options of each fitting for the lab, by name; `nursery` says what is imported once for several members."""
    control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.setblocking(False)
    hosts = folder / "hosts"
    if lab:
        hosts.write_text("".join(f"{a}\t{n}\n" for n, a in (("localhost", "127.0.0.1"), *nodes.items())))
    config = {
        "lab": lab, "harness": os.getpid(), "control": other.fileno(), "nodes": list(nodes.items()),
        "folder": str(folder), "alias": alias, "hosts": str(hosts), "packages": _packages() if lab else "",
        "fittings": dict(fittings or {}), "nursery": nursery,
    }  # fmt: skip
    with control, other:
        if not lab:  # so that orphans of a supervisor that was itself killed come to us
            syscall("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        program = _spawn(config, other.fileno())
        other.close()
        supervisor = Supervisor(program, control)
        try:
            yield supervisor
        finally:
            with anyio.CancelScope(shield=True):
                await supervisor.end()
                if not lab:
                    _end_orphans(folder)


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _end_orphans(folder: Path) -> None:
    """End what a killed supervisor left to us: children that were started for this run, and theirs in turn."""
    mark = b"CHAOS_DATA=" + os.fsencode(folder)
    while orphans := [pid for pid in children() if _environment(pid).find(mark) >= 0]:
        for pid in orphans:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended
        return b""


def _spawn(config: JSON, control: int) -> subprocess.Popen[bytes]:
    """Straight from this thread, and not from a worker thread: the kernel ends the child with the *thread* that made
    it. A session of its own keeps Ctrl-C for the harness."""
    program = Path(__file__).with_name("init.py")
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(program), json.dumps(config)]
    return subprocess.Popen(command, pass_fds=[control], start_new_session=True, stdin=subprocess.DEVNULL)


def _packages() -> str:
    """Where pyroute2 is installed; found without importing it, which would cost a tenth of a second."""
    found = importlib.util.find_spec("pyroute2")
    if found is None or found.origin is None:
        raise _closed("pyroute2 is not installed", "pip install 'mlchaos[network]', or ")
    return str(Path(found.origin).parents[1])


def _closed(reason: str, fix: str = "") -> TargetError:
    """The reason, what closes user namespaces on this machine, and the way round."""
    closed = []
    for path, bad in (
        ("/proc/sys/user/max_user_namespaces", "0"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
    ):
        with suppress(OSError):
            if Path(path).read_text().strip() == bad:
                closed.append(f"{path} is {bad}")
    why = f" ({', '.join(closed)})" if closed else ""
    way_round = f"{fix}--no-lab runs without it, for process faults only"
    return TargetError(f"the lab cannot be built: {reason}{why}", way_round)
