"""What this machine can do for a run: each ability with the reason and the way to get it.

Every check is bounded in time, changes nothing on the machine, and what could hang runs in a process of its own.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from importlib import metadata
from pathlib import Path

import anyio
import msgspec

from chaos.api import JSON, Cut, Driver, Fault, Landing, Launch, Links, Selection, Selector, Undo
from chaos.capabilities import Clocks, Groups
from chaos.errors import ChaosError
from chaos.exchanges import Exchanges
from chaos.history import Event
from chaos.talk import Recordings
from chaos.ways import Lossy, Slow, Streams

LIMIT = 20.0  # seconds for one check


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One ability: whether it is there, what was found, and what to do where it is not."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


def examine(driver: Driver | None = None) -> tuple[Row, ...]:
    """All checks, in a fixed order. `driver` is the one whose lab is really built (and ended again)."""
    return anyio.run(examine_async, driver)


async def examine_async(driver: Driver | None) -> tuple[Row, ...]:
    """`examine` for callers that run an event loop."""
    checks: dict[str, Callable[[], Awaitable[list[Row]]]] = {
        "machine": machine,
        "user namespaces": user_namespaces,
        "lab": lambda: lab(driver),
        "netem": netem,
        "file tap": file_tap,
        "fuse": fuse,
        "power cut": power_cut,
        "docker": docker,
        "slurm": slurm,
        "nvml": nvml,
        "toxiproxy": toxiproxy,
        "torch": torch,
        "command": other_commands,
    }
    found: dict[str, list[Row]] = {}

    async def one(name: str) -> None:
        found[name] = [Row(name=name, ok=False, detail=f"no answer within {LIMIT:g} s")]
        with anyio.move_on_after(LIMIT):
            found[name] = await checks[name]()

    async with anyio.create_task_group() as tasks:
        for name in checks:
            tasks.start_soon(one, name)
    return tuple(row for name in checks for row in found[name])


async def machine() -> list[Row]:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    detail = f"{cores} cores, {memory:.1f} GiB, Linux {platform.release()}, Python {platform.python_version()}"
    enough = cores >= 2 and memory >= 4
    fix = "the reference trainer wants 2 cores and 4 GiB: lower `nodes`, raise the budget"
    return [Row(name="machine", ok=enough, detail=detail, fix="" if enough else fix)]


async def user_namespaces() -> list[Row]:
    """Whether a process may make one; and if not, what closes them."""
    code, output = await _python("import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)")
    if code == 0:
        return [Row(name="user namespaces", ok=True, detail="open")]
    reasons = {
        "/proc/sys/user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
        "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
            "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    }
    for path, (bad, fix) in reasons.items():
        if _text(path) == bad:
            return [Row(name="user namespaces", ok=False, detail=f"{path} is {bad}", fix=f"{fix}; or --no-lab")]
    detail = output or "refused, as by the seccomp filter of a container"
    fix = "run outside of the container, or with a profile that allows unshare and mount; or --no-lab"
    return [Row(name="user namespaces", ok=False, detail=detail, fix=fix)]


class _Nobody:
    """A stage for a target without members."""

    def record(self, source: str, kind: str, data: JSON, t: float | None = None) -> Event:
        return Event(0, 0.0, 0.0, source, kind, data)

    def log_line(self, member: str, line: str) -> None:
        pass

    async def at_point(self, source: str, point: str, data: JSON) -> None:
        pass

    async def at_file(self, source: str, op: str, path: str, data: JSON) -> None:
        pass

    async def owe(self, undo: Undo) -> Callable[[], Awaitable[None]]:
        raise NotImplementedError("nothing outside the lab is touched here")


async def lab(driver: Driver | None) -> list[Row]:
    """Build one with two nodes, cut them apart, heal, end it: the lab and its links."""
    no_lab = [Row(name=name, ok=False, detail="not tried", fix="see lab") for name in ("nftables", *FITTED)]
    if driver is None:
        return [Row(name="lab", ok=False, detail="not tried: no driver was given", fix="give one"), *no_lab]
    with tempfile.TemporaryDirectory(prefix="chaos-doctor-") as folder:
        spec = {"settings": {}, "nodes": [{"name": "a"}, {"name": "b"}]}
        asked = (_Asking(),)
        launch = Launch(spec=spec, settings={}, folder=Path(folder), base=Path(folder), points=(), faults=asked)
        began = anyio.current_time()
        try:
            async with driver.open(launch, _Nobody()) as target:
                built = Row(name="lab", ok=True, detail=f"built in {anyio.current_time() - began:.2f} s")
                return [built, await links(target), *fitted(target)]
        except ChaosError as error:
            return [Row(name="lab", ok=False, detail=error.reason, fix=error.fix), *no_lab]


class _Asking(Fault[Groups], frozen=True, kw_only=True):
    """Never injected: it has the lab fitted with what is looked at here."""

    fidelity = "none"

    def selectors(self) -> tuple[Selector, ...]:
        return ()

    def uses(self) -> tuple[type, ...]:
        return (Clocks, Exchanges, Lossy, Recordings, Slow, Streams)

    def inject(self, target: Groups, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        raise NotImplementedError


FITTED = {  # what comes of it where it is missing; what to do about that is known to whoever refuses it
    "loss": "without it network.loss is refused",
    "rate": "without it network.bandwidth slows streams",
    "streams": "or --no-lab and a Toxiproxy server",
    "groups": "without groups stragglers are made by signals, and no memory by ulimit",
    "recording": "without it writer.replay is refused",
    "exchanges": "without it faults of objects are refused",
    "clock": "without it faults of clocks are refused",
}


def fitted(target: object) -> list[Row]:
    """What the driver has set up for a run that asks for it, each really tried by it."""
    mechanisms: Mapping[str, str] = getattr(target, "mechanisms", dict)()
    refused: Mapping[str, ChaosError] = getattr(target, "refusals", dict)()
    rows = []
    for name, otherwise in FITTED.items():
        if name in mechanisms:
            rows.append(Row(name=name, ok=True, detail=mechanisms[name]))
        else:
            error = refused.get(name, ChaosError("the driver does not offer it"))
            fix = f"{error.fix}; {otherwise}" if error.fix else otherwise
            rows.append(Row(name=name, ok=False, detail=error.reason, fix=fix))
    return rows


async def links(target: object) -> Row:
    """Cut two nodes apart and join them again."""
    fix = "a kernel with CONFIG_NF_TABLES; without it faults of the network are refused"
    if not isinstance(target, Links):
        return Row(name="nftables", ok=False, detail="missing in the kernel", fix=fix)
    cut = Cut(pairs=(("a", "b"), ("b", "a")))
    try:
        await target.cut(cut)
        await target.restore(cut)
    except ChaosError as error:
        return Row(name="nftables", ok=False, detail=str(error), fix=fix)
    return Row(name="nftables", ok=True, detail="a packet was dropped, and passed again after the heal")


NETEM = """
import ctypes, sys
sys.exit("no network namespace") if ctypes.CDLL(None).unshare(0x10000000 | 0x40000000) else None
from pyroute2 import IPRoute
with IPRoute() as ip:
    ip.tc("add", "netem", 1, "1:", delay=1000)
"""


async def netem() -> list[Row]:
    """Delay and loss on a link, tried in a network namespace of its own."""
    code, output = await _python(NETEM, site=True)
    if not code:
        return [Row(name="netem", ok=True, detail="there")]
    reason = output.splitlines()[-1] if output else f"exit code {code}"
    if "No such file or directory" in reason:
        fix = "modprobe sch_netem, or a kernel with CONFIG_NET_SCH_NETEM"
        return [Row(name="netem", ok=False, detail="missing in the kernel", fix=fix)]
    fix = "pip install 'mlchaos[network]'" if "pyroute2" in reason else "see user namespaces"
    return [Row(name="netem", ok=False, detail=reason, fix=fix)]


FUSE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
user, group = os.geteuid(), os.getegid()
if libc.unshare(0x10000000 | 0x00020000):
    sys.exit(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
for name, id in (("uid_map", user), ("setgroups", None), ("gid_map", group)):
    with open(f"/proc/self/{name}", "w") as file:
        file.write("deny" if id is None else f"{id} {id} 1")
try:
    device = os.open("/dev/fuse", os.O_RDWR)
except OSError as error:
    sys.exit(f"/dev/fuse: {error.strerror}")
data = f"fd={device},rootmode=40000,user_id={user},group_id={group}".encode()
if libc.mount(b"doctor", b"/mnt", b"fuse", ctypes.c_ulong(6), data):
    sys.exit(f"fuse cannot be mounted: {os.strerror(ctypes.get_errno())}")
os.environ["FUSE_LIBRARY_NAME"] = "fuse3"
try:
    import mfusepy
except ImportError:
    sys.exit("mfusepy is not installed")
except (OSError, AttributeError) as error:
    sys.exit(f"libfuse 3 is missing: {error}")
print(f"mounted in a namespace; libfuse {mfusepy.fuse_version_major}.{mfusepy.fuse_version_minor}")
"""


async def fuse() -> list[Row]:
    """The fault file system: its device, a mount that nobody else sees, its library."""
    code, output = await _python(FUSE, site=True)
    said = output.splitlines()[-1] if output else f"exit code {code}"
    if not code:
        return [Row(name="fuse", ok=True, detail=said)]
    fix = "see user namespaces"
    if "/dev/fuse" in said:
        fix = "modprobe fuse, and the right to open /dev/fuse (in a container: --device /dev/fuse)"
    elif "libfuse" in said or "mfusepy" in said:
        fix = "apt-get install libfuse3-3; pip install 'mlchaos[storage]'"
    return [Row(name="fuse", ok=False, detail=said, fix=fix)]


async def file_tap() -> list[Row]:
    """What stops file operations of members before they happen: a call of our own, really refused."""
    program = Path(__file__).with_name("drivers") / "process" / "fit_tap.py"
    code, output = await _run(sys.executable, "-I", "-S", str(program), "--try")
    said = output.splitlines()[-1] if output else f"exit code {code}"
    fix = "Linux 5.6 or newer on x86-64 or arm64; in a container, a seccomp profile that allows `seccomp` (not its own)"
    return [Row(name="file tap", ok=not code, detail=said, fix=fix if code else "")]


async def power_cut() -> list[Row]:
    """What loses what was not synced: a file system of our own that is really shut down, as it is done in a run."""
    program = Path(__file__).with_name("drivers") / "process" / "fit_disk.py"
    code, output = await _run(sys.executable, "-I", "-S", str(program), "--try", tempfile.gettempdir())
    said = output.splitlines()[-1] if output else f"exit code {code}"
    fix = "root, loop devices (modprobe loop) and mkfs.ext4 (e2fsprogs); without them it is replayed by the file tap"
    return [Row(name="power cut", ok=not code, detail=said, fix=fix if code else "")]


async def docker() -> list[Row]:
    """Ask the daemon, not the client."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    fix = "start Docker, and be in its group (`docker ps` must work)"
    if not host.startswith("unix://"):
        return [Row(name="docker", ok=True, detail=f"{host} (not asked)")]
    try:
        async with await anyio.connect_unix(host.removeprefix("unix://")) as daemon:
            await daemon.send(b"GET /_ping HTTP/1.0\r\n\r\n")
            answer = (await daemon.receive()).decode(errors="replace").splitlines()[0]
    except (OSError, anyio.EndOfStream) as error:
        return [Row(name="docker", ok=False, detail=f"{host}: {error or 'no answer'}", fix=fix)]
    ok = " 200 " in answer
    return [Row(name="docker", ok=ok, detail=f"{host}: {answer}", fix="" if ok else fix)]


async def slurm() -> list[Row]:
    if not shutil.which("sinfo"):
        return [Row(name="slurm", ok=False, detail="sinfo is not on the path", fix="run on a login node of a cluster")]
    code, output = await _run("sinfo", "--noheader", "--format=%D nodes %T")
    fix = "have the cluster answer this node" if code else ""
    return [Row(name="slurm", ok=not code, detail=output or f"sinfo exits with {code}", fix=fix)]


NVML = """
import ctypes, sys
nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
code = nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
sys.exit(f"NVML error {code}") if code else print(f"{count.value} devices")
"""


async def nvml() -> list[Row]:
    """In a process of its own: a sick driver hangs."""
    code, output = await _python(NVML)
    last = output.splitlines()[-1] if output else f"exit code {code}"
    fix = "install the NVIDIA driver; faults of devices then hit real ones"
    return [Row(name="nvml", ok=not code, detail=last.removeprefix("OSError: "), fix=fix if code else "")]


async def toxiproxy() -> list[Row]:
    """A server on its usual port, or at least the program."""
    with suppress(OSError, anyio.EndOfStream):
        async with await anyio.connect_tcp("127.0.0.1", 8474) as server:
            await server.send(b"GET /version HTTP/1.0\r\n\r\n")
            answer = (await server.receive()).decode(errors="replace")
            if "version" in answer:
                return [Row(name="toxiproxy", ok=True, detail=f"127.0.0.1:8474 {answer.splitlines()[-1]}")]
    program = shutil.which("toxiproxy-server")
    start = "start toxiproxy-server" if program else "install toxiproxy-server (one binary) and start it"
    fix = f"nothing, in the lab: it has one of its own; for --no-lab {start}"
    return [Row(name="toxiproxy", ok=False, detail=program or "no server on 127.0.0.1:8474", fix=fix)]


async def torch() -> list[Row]:
    """Installed, without importing it."""
    try:
        return [Row(name="torch", ok=True, detail=metadata.version("torch"))]
    except metadata.PackageNotFoundError:
        fix = "pip install 'mlchaos[train]': the reference trainer needs it, the harness does not"
        return [Row(name="torch", ok=False, detail="not installed", fix=fix)]


async def other_commands() -> list[Row]:
    """Another program called `chaos`: Chaos Toolkit installs one, too."""
    found = [
        f"{point.dist.name if point.dist else point.value} in this environment"
        for point in metadata.entry_points(group="console_scripts", name="chaos")
        if not point.value.startswith("chaos.cli:")
    ]
    ours = {Path(sys.executable).parent.resolve(), Path(sys.argv[0]).parent.resolve()}
    for folder in map(Path, dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep))):
        if folder.resolve() not in ours and os.access(folder / "chaos", os.X_OK):
            found.append(str(folder / "chaos"))
    fix = "call this one `mlchaos`" if found else ""
    return [Row(name="command", ok=not found, detail=", ".join(found) or "no other `chaos` on the path", fix=fix)]


async def _python(program: str, *, site: bool = False) -> tuple[int, str]:
    """Run a few lines in an interpreter of their own."""
    return await _run(sys.executable, *(["-I"] if site else ["-I", "-S"]), "-c", program)


async def _run(*command: str) -> tuple[int, str]:
    """Exit code, and what it printed (on either stream)."""
    try:
        done = await anyio.run_process(command, check=False)
    except OSError as error:
        return 127, str(error)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace").strip()


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
