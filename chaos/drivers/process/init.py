"""The first process of the lab: holds its namespaces, starts and reaps members, ends with the harness.

Run by its path in an interpreter of its own (`supervisor.py` does); the harness never imports it, and it imports
nothing of the harness: the standard library, and `kernel.py` and `network.py` beside it.

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
    from chaos.drivers.process import kernel, network
else:
    kernel, network = beside("kernel"), beside("network")


MOST_FDS = 32  # that come with one request


def fitted(name: str, step: str, *arguments: Any) -> None:
    """Have a fitting do its part of a step, where it has one: see `fittings/base.py`."""
    if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"fit_{name}.py")):
        module = beside(f"fit_{name}")
        if hasattr(module, step):
            getattr(module, step)(*arguments)


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


class Init:
    """Serves one harness: requests and file descriptors in, replies and exits out."""

    def __init__(self, control: socket.socket, network: Any, nodes: dict[str, int]) -> None:
        self.control = control
        self.network = network
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
                reply["pid"] = self.start(request, fds)
                send.append(os.pidfd_open(reply["pid"]))
            else:
                reply["result"] = self.network.apply(request["op"], [tuple(pair) for pair in request["pairs"]])
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
                self.become(request, fds)
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

    def become(self, request: dict[str, Any], fds: list[int]) -> None:
        """In the child: turn into the member."""
        os.setsid()
        kernel.die_with_parent()
        if os.getppid() != self.pid:
            os._exit(127)
        node = request["node"]
        if node in self.nodes:
            kernel.syscall("setns", self.nodes[node], kernel.CLONE_NEWNET)
            kernel.syscall("unshare", kernel.CLONE_NEWUTS)
            socket.sethostname(node)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for old, new in ((nothing, 0), (fds[0], 1), (fds[0], 2)):
            os.dup2(old, new)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(request["cwd"])
        for name, dress in request["dress"].items():
            fitted(name, "dress", dress["options"], [fds[i] for i in dress["fds"]])
        os.execvpe(request["argv"][0], request["argv"], {**os.environ, **request["env"]})

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
        fitted(name, "furnish", options)
    lab = network.build(config["nodes"])
    with sexton:
        socket.send_fds(sexton, [b"!"], [os.pidfd_open(os.getpid()), *lab.namespaces.values()])
    control.send(json.dumps({"ready": {**found, **lab.mechanisms()}}).encode())
    return Init(control, lab, lab.namespaces)


def run_lab(config: dict[str, Any], control: socket.socket) -> None:
    """Fork process 1 into the new namespaces and wait for its end."""
    for name, options in config["fittings"].items():
        fitted(name, "prepare", options)
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
        os._exit(abs(code))
    os.close(held)
    kernel.die_with_parent()
    # Our parent is outside of our process namespace, so getppid() cannot tell; the pipe can.
    hung_up = select.poll()
    hung_up.register(alive, select.POLLHUP)
    if not hung_up.poll(0):
        open_lab(config, control, to_sexton).serve()
    os._exit(0)


def run_here(control: socket.socket) -> None:
    """Without a lab: serve, and end all descendants."""
    kernel.syscall("prctl", kernel.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    init = Init(control, None, {})
    with suppress(OSError):
        control.send(json.dumps({"ready": {"lab": "none"}}).encode())
        init.serve()
    init.end_descendants()


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
            run_here(control)
    except (OSError, RuntimeError, ImportError) as error:
        with suppress(OSError):
            control.send(json.dumps({"failed": str(error)}).encode())
        sys.exit(1)


if __name__ == "__main__":
    main()
