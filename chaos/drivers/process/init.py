"""The first process of the lab: holds its namespaces, starts and reaps members, ends with the harness.

Run by its path in an interpreter of its own (`supervisor.py` does); the harness never imports it, and it imports
nothing of the harness: the standard library, and `network.py` beside it where there is a network to build.

The harness holds the other end of a control socket; its end of file means that the harness has gone. With a lab,
this program is process 1 of its own process namespace, so when it ends, for whatever reason, the kernel ends every
process, mount and link in there. Without a lab it is the reaper of all its descendants and ends them itself.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MOST_NODES = 150  # so many file descriptors fit into one message, too

libc = ctypes.CDLL(None, use_errno=True)


class Refused(RuntimeError):
    """The kernel does not give us the lab; the message is for the user."""


def syscall(name: str, *arguments: Any) -> None:
    """Call the C library; raises OSError."""
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [w.encode() if w is not None else None for w in (source, target, kind, data)]
    syscall("mount", words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])


def die_with_parent() -> None:
    """SIGKILL for this process as soon as its parent ends. The caller must then look whether it has ended already."""
    syscall("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def enter_user_namespace() -> None:
    """Go into a user namespace of our own, in which we have all rights."""
    with map_ids():
        try:
            syscall("unshare", CLONE_NEWUSER)
        except OSError as error:
            raise Refused(f"user namespaces are closed: {error.strerror}") from error
    die_with_parent()  # the kernel forgets it when rights change


def enter_namespaces() -> None:
    """Go into all the others. The next child is process 1."""
    try:
        syscall("unshare", CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC)
    except OSError as error:
        raise Refused(f"a user namespace came without rights: {error.strerror}") from error


@contextmanager
def map_ids() -> Iterator[None]:
    """Around entering a user namespace: everybody stays who he is. So members run as the same user as outside, and
    hold no special rights once they are executed."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        with map_everyone() as mapped:
            yield
        if mapped():
            return
    else:
        yield
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{user} {user} 1")
    write("/proc/self/gid_map", f"{group} {group} 1")


@contextmanager
def map_everyone() -> Iterator[Callable[[], bool]]:
    """For root, who keeps rights over everybody's files: only a process that stays outside may say so, so a child
    does. Whether it was let is known after the block (in a container without that right it is not)."""
    me, (entered, enter) = os.getpid(), os.pipe()
    with open("/proc/self/uid_map") as file:
        known = "".join(f"{first} {first} {count}\n" for first, _, count in map(str.split, file))
    child = os.fork()
    if child == 0:
        os.close(enter)
        os.read(entered, 1)
        with suppress(Refused):
            write(f"/proc/{me}/uid_map", known)
            write(f"/proc/{me}/gid_map", known)
            os._exit(0)
        os._exit(1)
    os.close(entered)
    try:
        yield lambda: os.waitpid(child, 0)[1] == 0
    finally:
        os.close(enter)


def write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from error


def furnish(config: dict[str, Any]) -> dict[str, str]:
    """Mounts of our own: /proc, shared memory (also for temporary files), names of the nodes. Says what is there."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    found = {"lab": "user, mount, pid, network, ipc namespaces"}
    if config["folder"].startswith("/dev/shm/"):
        raise Refused("the run's folder is under /dev/shm, which the lab replaces by one of its own")
    try:
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except OSError as error:  # a container that hides parts of /proc lets nobody mount another
        found["proc"] = f"shared with the host: {error.strerror}"
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    os.symlink(config["folder"], config["alias"])
    if os.path.exists("/etc/hosts"):
        mount(config["hosts"], "/etc/hosts", None, MS_BIND)
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
        data, fds, _, _ = socket.recv_fds(self.control, 1 << 20, 4, socket.MSG_CMSG_CLOEXEC)
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
                self.become(request, fds[0])
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

    def become(self, request: dict[str, Any], output: int) -> None:
        """In the child: turn into the member."""
        os.setsid()
        die_with_parent()
        if os.getppid() != self.pid:
            os._exit(127)
        node = request["node"]
        if node in self.nodes:
            syscall("setns", self.nodes[node], CLONE_NEWNET)
            syscall("unshare", CLONE_NEWUTS)
            socket.sethostname(node)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for old, new in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(old, new)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(request["cwd"])
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
                for pid in children():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                os.waitpid(-1, 0)


def children() -> list[int]:
    """Our direct children, from /proc (the file `children` is not in every kernel)."""
    found, me = [], str(os.getpid())
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat") as file:
            if file.read().rpartition(")")[2].split()[1] == me:
                found.append(int(name))
    return found


def load_network() -> Any:
    """The module beside this one, which is no package here."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "network.py")
    spec = importlib.util.spec_from_file_location("network", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def open_lab(config: dict[str, Any], control: socket.socket, sexton: socket.socket, module: Any) -> Init:
    """As process 1: mounts and network, then say what was built."""
    found = furnish(config)
    network = module.build(config["nodes"])
    with sexton:
        socket.send_fds(sexton, [b"!"], [os.pidfd_open(os.getpid()), *network.namespaces.values()])
    control.send(json.dumps({"ready": {**found, **network.mechanisms()}}).encode())
    return Init(control, network, network.namespaces)


def run_lab(config: dict[str, Any], control: socket.socket) -> None:
    """Fork process 1 into the new namespaces and wait for its end."""
    module = load_network()
    enter_user_namespace()
    to_sexton, ours = socket.socketpair()
    sexton = os.fork()
    if sexton == 0:
        control.close()
        to_sexton.close()
        bury(ours, module)
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
    die_with_parent()
    # Our parent is outside of our process namespace, so getppid() cannot tell; the pipe can.
    hung_up = select.poll()
    hung_up.register(alive, select.POLLHUP)
    if not hung_up.poll(0):
        open_lab(config, control, to_sexton, module).serve()
    os._exit(0)


def bury(news: socket.socket, module: Any) -> None:
    """In a process that outlives the lab by a moment: end what the dead leave on the wire. A connection whose last
    words nobody acknowledges, since the other end was cut off or has gone, would keep its node's network for minutes.
    """
    fds = socket.recv_fds(news, 1, 1 + MOST_NODES)[1]
    if fds:  # else the lab never stood
        lab, *nodes = fds
        ended = select.poll()
        ended.register(lab, select.POLLIN)
        ended.poll()  # process 1 has ended once all others have
        for node in nodes:
            with suppress(OSError):
                module.end_connections(node)
    os._exit(0)


def run_here(control: socket.socket) -> None:
    """Without a lab: serve, and end all descendants."""
    syscall("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
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
            die_with_parent()
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
