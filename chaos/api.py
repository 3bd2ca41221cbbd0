"""The one file a plugin author reads: what a fault, a probe, an invariant and a driver are.

A plugin is one class in one file of its package. Its kind in YAML follows from the file:
`chaos/faults/network/partition.py` is `network.partition`, `chaos/probes/training/throughput.py` is
`training.throughput`, `chaos/invariants/fenced_writer.py` is `fenced-writer`. The class's fields are its settings in
YAML (snake_case there becomes kebab-case), its docstring is what `chaos explain` shows. Third parties publish classes
under the entry points `chaos.faults`, `chaos.probes`, `chaos.invariants`, `chaos.drivers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    runtime_checkable,
)

import msgspec
from msgspec import Meta

from chaos.fileops import Rule, Tapped
from chaos.history import Event, History
from chaos.layout import Layout
from chaos.trigger import OnFile
from chaos.verdict import Verdict

# Units: in YAML a string with a unit (`8s`, `90%`, `64MiB`), in code a float or int of the base unit.
Duration = Annotated[float, Meta(ge=0, extra={"unit": "duration"}, description="seconds, such as 250ms, 8s, 2m, 1h")]
Ratio = Annotated[float, Meta(ge=0, extra={"unit": "ratio"}, description="a share, such as 90% or 0.9")]
Size = Annotated[int, Meta(ge=0, extra={"unit": "size"}, description="bytes, such as 64KiB or 10MB")]

JSON = dict[str, Any]


# --- members and their selection -------------------------------------------------------------------------------------


class Slot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place for a member that a target declares before it runs; the plan draws from these."""

    name: str
    role: str
    node: str | None = None
    rank: int | None = None  # the rank at start; an elastic restart may give it to another process
    domains: Mapping[str, str] = {}  # {"rack": "r0", …}


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A process of the target, alive when it was asked for. `pid` is as the harness sees it."""

    name: str
    role: str
    pid: int
    node: str | None = None
    rank: int | None = None


class Selector(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which members a fault hits: every given field must match; then `random` or `percent` draws from those.

    `rest: true` means all nodes that the other selector of the same fault does not name (for partitions).
    The plan replaces `random` and `percent` by names, so that a schedule has no dice left in it.
    """

    names: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    domains: Mapping[str, str] = {}
    random: int | None = None
    percent: Ratio | None = None
    rest: bool = False


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What a selector means at the moment of injection: live members, and the nodes selected (dead or alive)."""

    members: tuple[Member, ...]
    nodes: tuple[str, ...]


# --- targets and what they can do ------------------------------------------------------------------------------------


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """How a target ended by itself: exit code of its deciding member and who that was."""

    code: int
    member: str


class Target(Protocol):
    """The live system under test. Also implements the capabilities below that its driver can offer."""

    def members(self) -> tuple[Member, ...]:
        """The processes alive now."""

    async def wait_ready(self) -> None:
        """Return when every member the target file waits for is ready; raise TargetError with the reason if not."""

    async def wait_finished(self) -> Finished:
        """Return when the target has ended by itself."""

    async def dump_stacks(self) -> tuple[str, ...]:
        """Have every live member write the stacks of its threads to its log; the names of those asked."""


@runtime_checkable
class Signals(Protocol):
    """Members are processes that can be signalled. Safe against reuse of process ids."""

    async def signal(self, member: Member, signum: int) -> None:
        """Send a signal; raises NotLanded when that process has already gone."""

    def state(self, member: Member) -> str:
        """The kernel's state letter (`R`, `S`, `T`, `Z`, …), `X` once it has gone. Reads /proc, never cached."""

    async def wait_state(self, member: Member, states: str, timeout: float) -> str:
        """Wait until the state is one of `states`, return it; raises NotLanded after `timeout` seconds."""


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """Packets from each first to each second node are dropped, as (source node, destination node)."""

    pairs: tuple[tuple[str, str], ...]


@runtime_checkable
class Links(Protocol):
    """Nodes have addresses of their own and the path between any two can be cut."""

    def nodes(self) -> tuple[str, ...]:
        """All nodes, in order of declaration."""

    async def cut(self, cut: Cut) -> JSON:
        """Drop those packets and prove it: returns what was sent and what was dropped; NotLanded if it was not."""

    async def restore(self, cut: Cut) -> JSON:
        """Undo that cut (cuts stack: others stay) and prove that packets pass again unless another cut forbids it."""


@runtime_checkable
class Files(Protocol):
    """The target's data lies in files that the harness may touch."""

    def data_root(self) -> Path:
        """The folder with the target's durable state, as the harness sees it."""


@runtime_checkable
class Programs(Protocol):
    """Members that the harness started can be started again."""

    def programs(self, node: str | None = None) -> tuple[str, ...]:
        """The names of the members that the harness starts, in order; only those of a node where one is given."""

    async def start_again(self, name: str) -> Member:
        """Start a member that has ended, by the same command; raises NotLanded while it lives or when it cannot."""


@runtime_checkable
class Hooks(Protocol):
    """Members call `chaos.inside.tamper` where their values may be changed."""

    async def arm(self, member: Member, site: str, change: JSON) -> int:
        """Change what passes that site of the member, and of the next process of its name, until it is disarmed.

        The number by which the hook is known; NotLanded where the member offers no such site. `change` is what
        `chaos.inside` carries out. An armed hook has not hit anything yet.
        """

    async def wait_hit(self, number: int, timeout: float) -> JSON:
        """The first hit: where it was and what was changed; NotLanded when none comes within `timeout` seconds."""

    async def disarm(self, number: int) -> JSON:
        """Hit no more, and say how often it did. Harmless when the member has gone; HealFailed when it is silent."""


@runtime_checkable
class Taps(Protocol):
    """File operations of members can be stopped before they happen, unseen by the programs."""

    async def tap(self, rule: Rule, names: Sequence[str] | None) -> Tapped:
        """From now on, hit what the rule says of the members of these names, all of them when None; a process that
        says who it is only later counts as the one that started it."""


@runtime_checkable
class HitsFiles(Protocol):
    """A fault on file operations: says which before the run, so that only these are stopped."""

    def rule(self) -> Rule: ...


@runtime_checkable
class Checkpoints(Files, Protocol):
    """The target says where in its data its checkpoints lie."""

    def layout(self) -> Layout:
        """As its target file declares it under `checkpoints`; Unsupported where it does not."""


# --- faults ----------------------------------------------------------------------------------------------------------

Capability = TypeVar("Capability", contravariant=True)


class Landing:
    """What a fault hands to the runner while it stands: proof that it landed, later proof that it healed.

    `upkeep` is for a fault that must go on doing something: run beside the hold, and cancelled before the heal.

    A fault that the target itself must run into (an error that its next write gets) is only armed when it is entered:
    it hands over no evidence yet, and `hit`, which waits until somebody ran into it and returns the proof. It calls its
    argument right before the effect, for the record. Who is held by the trigger goes on as soon as the fault is armed;
    one that nobody runs into before the run ends has not landed.
    """

    def __init__(
        self,
        evidence: JSON,
        upkeep: Callable[[], Awaitable[None]] | None = None,
        hit: Callable[[Callable[[], None]], Awaitable[JSON]] | None = None,
    ) -> None:
        self.evidence = evidence  # non-empty, JSON; shown with the verdict
        self.hit = hit
        self.healed: JSON = {}  # filled on the way out
        self.met: int | None = None  # as well, where it is counted: how often the target ran into it; 0 proves nothing
        self.upkeep = upkeep


class Fault(msgspec.Struct, Generic[Capability], frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """One way to break something. Fields are settings; the docstring's first line says what it does.

    `class Freeze(Fault[Signals], frozen=True, kw_only=True)` states its need once: a target that lacks the capability
    is refused before the run.
    """

    fidelity: ClassVar[str]  # which layer it stands for and what it does not show
    instant: ClassVar[bool] = False  # nothing stands afterwards, so there is nothing to hold or heal (a kill)
    awaits: ClassVar[bool] = False  # it lands by what its victims do: none may stand at a failpoint until it has landed

    def sections(self) -> tuple[str, ...]:
        """The keys of a target file without which these settings mean nothing; such a target is refused."""
        return ()

    @abstractmethod
    def selectors(self) -> tuple[Selector, ...]:
        """Whom it hits; the runner resolves each and hands the selections to `inject` in the same order."""

    def needs(self) -> tuple[type, ...]:
        """Capabilities beyond `Fault[…]` that these settings ask for: without one of them it is refused."""
        return ()

    def uses(self) -> tuple[type, ...]:
        """Capabilities that are set up for it where the machine can; it does without, and its evidence says so."""
        return ()

    @abstractmethod
    def inject(self, target: Capability, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        """Entering injects and proves it landed (else NotLanded); leaving heals (else HealFailed).

        Hold no task group open across the yield. Whatever was done before a failure inside enter must be undone there.
        Nothing may stand before the heal on the way out. The heal must be harmless when the member has gone. The runner
        shields it and cuts it off at `limits.heal`; a shield of the fault's own needs a deadline, or nothing can.
        """


def capability_of(fault: type) -> type | None:
    """What a fault needs of a target: the argument of `Fault[…]` it was declared with."""
    for cls in fault.__mro__:
        for base in getattr(cls, "__orig_bases__", ()):
            if get_origin(base) is Fault and isinstance(need := get_args(base)[0], type):
                return need
    return None


# --- probes ----------------------------------------------------------------------------------------------------------


class Scene(Protocol):
    """What a probe may look at."""

    @property
    def target(self) -> Target: ...

    def now(self) -> float:
        """Seconds since the run began, the clock of `Event.t`."""

    def recent(self, kind: str, seconds: float) -> Sequence[Event]:
        """Recorded events of that kind with `t` in the last `seconds`."""


class Probe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A measurement taken every `every` seconds on an absolute schedule. Returns one number (see `unit`), or None
    where there is no data: that is recorded and never counts as met."""

    unit: ClassVar[str]
    every: Duration = 0.5

    @abstractmethod
    def sample(self, scene: Scene) -> Awaitable[float | None]:
        """Take one sample; must return within `every`, else the sample counts as late."""


# --- invariants ------------------------------------------------------------------------------------------------------


class Invariant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A promise: a pure function of a history to a verdict with evidence."""

    id: ClassVar[str]  # T1 … S8, as in the catalogue
    needs: ClassVar[tuple[str, ...]] = ()  # kinds of events without which nothing can be judged

    @abstractmethod
    def check(self, history: History) -> Verdict:
        """Judge. `unknown` where the history holds nothing to judge; never looks at anything but `history`."""


# --- drivers ---------------------------------------------------------------------------------------------------------


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """How to undo something outside the lab when the harness is dead: a request over HTTP."""

    what: str  # for people: "toxic latency on proxy store"
    method: str
    url: str


class Stage(Protocol):
    """What the runner offers a driver."""

    def record(self, source: str, kind: str, data: JSON, t: float | None = None) -> Event:
        """Append a fact. `t` is an absolute CLOCK_MONOTONIC reading, now when None."""

    def log_line(self, member: str, line: str) -> None:
        """A line that a member printed (already in its log file): feeds the log triggers."""

    async def at_point(self, source: str, point: str, data: JSON) -> None:
        """A member stands at a failpoint; returns when it may go on (after the fault there has landed)."""

    async def at_file(self, source: str, op: str, path: str, data: JSON) -> None:
        """A member is about to do `op` on `path` (relative to the data where it lies there), as a trigger of
        `Launch.files` asked for; returns when it may go on."""

    async def owe(self, undo: Undo) -> Callable[[], Awaitable[None]]:
        """Before something is done outside the lab: write down how it is undone, durably, and have it undone by a
        process that outlives the harness. What this returns is to be called once it is healed."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver needs to know to start a target."""

    spec: JSON  # the target file with settings filled in; the driver decodes its own part
    settings: JSON
    folder: Path  # the run's folder: logs/ and data/ below it belong to the driver
    base: Path  # the folder of target.yaml, against which relative paths are meant
    points: tuple[str, ...]  # failpoints that are armed in this run
    lab: bool = True  # False: no namespaces (`--no-lab`)
    faults: tuple[Fault[Any], ...] = ()  # that may be injected: what they need is set up before the first member
    files: tuple[OnFile, ...] = ()  # file operations at which the schedule wants to stop a member
    seed: int = 0  # of the schedule: dice that are thrown during the run begin with it

    def wants(self, capability: type) -> bool:
        """Whether a fault of this run needs `capability`, alone or as part of a larger one."""
        asked = (need for f in self.faults for need in (capability_of(type(f)), *f.needs(), *f.uses()))
        return any(capability in need.__mro__ for need in asked if need is not None)


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """A way to start and reach a target. The kind in YAML is the file's name."""

    keys: ClassVar[tuple[str, ...]] = ()  # of its target files, beside those that every target file may have

    @abstractmethod
    def slots(self, spec: JSON) -> tuple[Slot, ...]:
        """The members that this target file declares, without starting anything."""

    @abstractmethod
    def open(self, launch: Launch, stage: Stage) -> AbstractAsyncContextManager[Target]:
        """Entering starts the members; leaving ends every process, mount and link, whatever happened before."""


__all__ = [
    "ABC", "JSON", "Capability", "Checkpoints", "Cut", "Driver", "Duration", "Fault", "Files", "Finished", "HitsFiles",
    "Hooks", "Invariant", "Landing", "Launch", "Layout", "Links", "Member", "Probe", "Programs", "Ratio", "Rule",
    "Scene", "Selection", "Selector", "Signals", "Size", "Slot", "Stage", "Tapped", "Taps", "Target", "Undo",
    "capability_of",
]  # fmt: skip
