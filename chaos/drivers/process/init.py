"""The first process of the lab: holds its namespaces, starts and reaps members, ends with the harness.

Run by its path in an interpreter of its own (`supervisor.py` does); the harness never imports it, and it imports
nothing of the harness: the standard library, and `become.py`, `kernel.py` and `network.py` beside it.

The harness holds the other end of a control socket; its end of file means that the harness has gone. With a lab,
this program is process 1 of its own process namespace, so when it ends, for whatever reason, the kernel ends every
process, mount and link in there. Without a lab it is the reaper of all its descendants and ends them itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any


def beside(name: str) -> Any:
    """A module in this folder, which is no package here."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from chaos.drivers.process import become, kernel, network, packets
else:
    become, kernel = beside("become"), beside("kernel")
    network, packets = beside("network"), beside("packets")

MOST_FDS = 32  # that come with one request


def enter_namespaces() -> None:
    """Go into all the others. The next child is process 1."""
    try:
        kernel.syscall("unshare", kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC)
    except OSError as error:
        raise kernel.Refused(f"a user namespace came without rights: {error.strerror}") from error


def furnish(config: dict[str, Any]) -> dict[str, str]:
    """Mounts of our own: /proc, shared memory (also for temporary files), names of the nodes. Says what is there."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    found = {"lab": "user, mount, pid, network, ipc namespaces"}
    if config["folder"].startswith("/dev/shm/"):
        raise kernel.Refused("the run's folder is under /dev/shm, which the lab replaces by one of its own")
    try:
        kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    except OSError as error:  # a container that hides parts of /proc lets nobody mount another
        found["proc"] = f"shared with the host: {error.strerror}"
    kernel.mount("tmpfs", "/dev/shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777")
    os.symlink(config["folder"], config["alias"])
    if os.path.exists("/etc/hosts"):
        kernel.mount(config["hosts"], "/etc/hosts", None, kernel.MS_BIND)
    return found


class Nursery:
    """Our end of `nursery.py`."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ready = False
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nursery.py")
        argv = [config["python"], program, str(other.fileno()), *config["modules"]]
        if os.fork() == 0:
            try:
                kernel.die_with_parent()
                os.set_inheritable(other.fileno(), True)
                nothing = os.open(os.devnull, os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(nothing, fd)
                signal.set_wakeup_fd(-1)
                kernel.keep_rights()  # to enter the nodes of members, who drop them
                os.execvpe(argv[0], argv, {**os.environ, **config["env"]})
            finally:
                os._exit(127)
        other.close()

    def wait(self, control: socket.socket) -> None:
        """Until it has imported everything; ends this process when the harness goes first."""
        poll = select.poll()
        poll.register(self.channel, select.POLLIN)
        poll.register(control, select.POLLRDHUP)
        if self.channel.fileno() not in (fd for fd, _ in poll.poll()):
            raise OSError("the harness has gone")
        said = json.loads(self.channel.recv(1 << 16) or b'{"failed": "it ended"}')
        if "failed" in said:
            raise OSError(f"what it preloads cannot be imported: {said['failed']}")
        self.ready = True

    def fork(self, request: dict[str, Any], fds: list[int]) -> int:
        """A member; its process id, of a child of ours."""
        socket.send_fds(self.channel, [json.dumps(request).encode()], fds)
        said = json.loads(self.channel.recv(1 << 16) or b'{"error": "the nursery has ended"}')
        if "error" in said:
            raise OSError(said["error"])
        return int(said["pid"])


class Init:
    """Serves one harness: requests and file descriptors in, replies and exits out."""

    def __init__(
        self, control: socket.socket, network: Any, nodes: dict[str, int], nursery: Nursery | None = None
    ) -> None:
        self.control = control
        self.nursery = nursery
        self.network = network
        self.packets = packets.Packets(network)
        self.nodes = nodes
        self.pid = os.getpid()
        self.wake, alarm = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def serve(self) -> None:
        """Until the harness closes its end."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self.wake in ready:
                with suppress(BlockingIOError):
                    os.read(self.wake, 4096)
                self.reap()
            if self.control.fileno() in ready and not self.answer():
                return

    def answer(self) -> bool:
        """One request; False at the end of file."""
        data, fds, _, _ = socket.recv_fds(self.control, 1 << 20, MOST_FDS, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return False
        request = json.loads(data)
        reply: dict[str, Any] = {"id": request["id"]}
        send: list[int] = []
        try:
            if request["op"] == "start":
                reply["pid"] = self.fork(request, fds) if request["preloaded"] else self.start(request, fds)
                send.append(os.pidfd_open(reply["pid"]))
            elif request["op"] == "socket":
                send.append(self.network.socket_on(request["node"], request["kind"], request["family"]))
            else:
                part = self.network if request["op"] in ("cut", "restore") else self.packets
                reply["result"] = part.apply(request["op"], request)
        except (OSError, RuntimeError) as error:
            reply["error"] = str(error)
        socket.send_fds(self.control, [json.dumps(reply).encode()], send)
        for fd in (*fds, *send):
            os.close(fd)
        return True

    def start(self, request: dict[str, Any], fds: list[int]) -> int:
        """A member in its node, in a session of its own; returns once the program is executed."""
        failure, report = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            try:
                become.become(request, fds, self.nodes.get(request["node"]), self.pid)
                os.execvpe(request["argv"][0], request["argv"], {**os.environ, **request["env"]})
            except OSError as error:
                os.write(report, str(error).encode())
            finally:
                os._exit(127)
        os.close(report)
        with os.fdopen(failure, "rb") as pipe:
            reason = pipe.read().decode()
        if reason:
            os.waitpid(pid, 0)
            raise OSError(reason)
        return pid

    def fork(self, request: dict[str, Any], fds: list[int]) -> int:
        """A member out of the nursery: what it needs is imported there already, or soon."""
        assert self.nursery is not None
        if not self.nursery.ready:
            self.nursery.wait(self.control)
        namespace = self.nodes.get(request["node"])
        request = {**request, "parent": self.pid, "namespace": len(fds) if namespace is not None else None}
        return self.nursery.fork(request, fds if namespace is None else [*fds, namespace])

    def reap(self) -> None:
        """Tell of every child that ended, adopted ones too."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                exited = {"exited": ended[0], "code": os.waitstatus_to_exitcode(ended[1])}
                self.control.send(json.dumps(exited).encode())

    def end_descendants(self) -> None:
        """Without a lab: kill until there is nothing left to wait for; orphans come to us as their reaper."""
        with suppress(ChildProcessError):
            while True:
                for pid in kernel.children():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                os.waitpid(-1, 0)


def open_lab(config: dict[str, Any], control: socket.socket, sexton: socket.socket) -> Init:
    """As process 1: mounts and network, then say what was built."""
    found = furnish(config)
    for name, options in config["fittings"].items():
        become.fitted(name, "furnish", options)
    nursery = Nursery(config["nursery"]) if config["nursery"] else None  # imports while the network is built
    lab = network.build(config["nodes"])
    with sexton:
        socket.send_fds(sexton, [b"!"], [os.pidfd_open(os.getpid()), *lab.namespaces.values()])
    control.send(json.dumps({"ready": {**found, **lab.mechanisms()}}).encode())
    return Init(control, lab, lab.namespaces, nursery)


def run_lab(config: dict[str, Any], control: socket.socket) -> None:
    """Fork process 1 into the new namespaces and wait for its end."""
    ends = [become.fitted(name, "prepare", options) for name, options in config["fittings"].items()]
    kernel.enter_user_namespace()
    kernel.die_with_parent()  # forgotten when rights change
    to_sexton, ours = socket.socketpair()
    sexton = os.fork()
    if sexton == 0:
        control.close()
        to_sexton.close()
        network.bury(ours)
    ours.close()
    enter_namespaces()
    alive, held = os.pipe()
    child = os.fork()
    if child:
        control.close()
        to_sexton.close()
        os.close(alive)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.waitpid(sexton, 0)
        for end in filter(None, ends):
            end()
        os._exit(abs(code))
    os.close(held)
    kernel.die_with_parent()
    # Our parent is outside of our process namespace, so getppid() cannot tell; the pipe can.
    hung_up = select.poll()
    hung_up.register(alive, select.POLLHUP)
    if not hung_up.poll(0):
        open_lab(config, control, to_sexton).serve()
    os._exit(0)


def run_here(config: dict[str, Any], control: socket.socket) -> None:
    """Without a lab: serve, and end all descendants."""
    kernel.syscall("prctl", kernel.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    init = Init(control, None, {}, Nursery(config["nursery"]) if config["nursery"] else None)
    with suppress(OSError):
        control.send(json.dumps({"ready": {"lab": "none"}}).encode())
        init.serve()
    for name, options in config["fittings"].items():
        become.fitted(name, "release", options)
    init.end_descendants()
    for name, options in config["fittings"].items():
        become.fitted(name, "settle", options)


@contextmanager
def short_path(alias: str, folder: str) -> Iterator[None]:
    """A link to the folder, in a directory of its own; nothing where no alias is needed."""
    if not alias:
        yield
        return
    os.mkdir(os.path.dirname(alias), 0o700)
    try:
        os.symlink(folder, alias)
        yield
    finally:
        os.unlink(alias)
        os.rmdir(os.path.dirname(alias))


def main() -> None:
    config = json.loads(sys.argv[1])
    control = socket.socket(fileno=config["control"])
    os.set_inheritable(control.fileno(), False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whoever started the harness may have blocked some
    sys.path.append(config["packages"])
    try:
        if config["lab"]:
            kernel.die_with_parent()
            if os.getppid() == config["harness"]:
                run_lab(config, control)
            return
        with short_path(config["alias"], config["folder"]):
            run_here(config, control)
    except (OSError, RuntimeError, ImportError) as error:
        with suppress(OSError):
            control.send(json.dumps({"failed": str(error)}).encode())
        sys.exit(1)


if __name__ == "__main__":
    main()
