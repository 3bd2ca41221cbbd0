"""Recovery, measured from the history: what it cost in time and in work.

The definitions are the design's (`T_recovery = T_detect + T_restart + T_load + T_warmup`), with these borders:

    fault landed ──detect── failure declared ──restart── group formed ──load── last rank loaded ──warm-up── at speed

- *fault landed*: the first fault of the episode; its injection instead where the failure was declared before the proof
  was in (a warned preemption).
- *failure declared*: the first `failure.detected` after that, else the re-formation's own declaration.
- *group formed*: `group.formed` of the group that went on, or the first `checkpoint.loading` of its epoch where a
  target loads before it calls the group formed.
- *last rank loaded*: the last `checkpoint.loaded` (or `state.resumed`, of live state) of that epoch; where nothing was
  loaded, the load took no time.
- *at speed*: the first step of that group at which the mean speed of its last three steps is at least `warm` times the
  median speed of the healthy steps before the first fault; without `warm`, the first step that every rank completed.

The terms share their borders, so they add up to the total; where load and formation overlap none is counted twice.
A fault that lands before the new group has completed a step belongs to the same episode. RPO counts from the fault: the
last step completed by any rank until then (of several faults, the furthest) minus the restored step. Where the target
went on before it was stopped (a fault with a delayed effect) and restored a later cut, the frontier is the
last step completed before the re-formation, so a loss below zero always means that something restored was never done.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import pairwise

import msgspec

from chaos.history import Event, History
from chaos.result import Need, Recovery
from chaos.statistics import median
from chaos.training import Execution, Group, Lineage, Roster, Struck, grows, job_over, lineage, strikes

_WINDOW = 3  # steps whose mean speed counts as the speed


class _Episode(msgspec.Struct):
    """The groups formed and the faults landed until work went on again."""

    groups: list[Group]
    faults: list[Struck]
    need: Need
    declared: Event | None  # the first declaration of a failure in it


def measure(history: History, warm: float | None = None) -> tuple[Recovery, ...]:
    """Every episode of the run in order, faults that needed no recovery included.

    `warm`: the share of the healthy speed at which the group counts as warmed up (the hypothesis' bound).
    """
    line, faults = lineage(history), strikes(history)
    episodes = _episodes(history, line, faults)
    pace = _pace(line, faults)
    found = [_recovery(history, line, e, warm, pace) for e in episodes]
    taken = {f.landed.seq for e in episodes for f in e.faults}
    found += [_untouched(history, line, f) for f in faults if f.landed.seq not in taken]
    return tuple(sorted(found, key=lambda r: r.began))


# --- which groups and faults belong together -------------------------------------------------------------------------


def _episodes(history: History, line: Lineage, faults: tuple[Struck, ...]) -> list[_Episode]:
    episodes: list[_Episode] = []
    spent: set[int] = set()
    roster = Roster(history)
    for before, group in pairwise(line.groups):
        declared = [e for e in history.of("failure.detected") if before.seq < e.seq < group.seq]
        unspent = [f for f in faults if f.injecting.seq < group.seq and f.landed.seq not in spent]
        again = [f for f in faults if f.landed.seq in spent]
        unspent += _again(history, again, before, declared) or _still(history, line, roster, again, before, declared)
        causes = _causes(line, roster, unspent, declared, group)
        open_ = episodes[-1] if episodes else None
        if open_ is not None and open_.groups[-1] is before and not _worked(line, before):
            open_.groups.append(group)
            open_.faults += causes
            open_.need = Need.FAILURE if causes else open_.need
        else:
            planned = grows(history, before, group, declared) or not (declared or _undone(line, group))
            if planned:
                causes = [f for f in causes if f.landed.seq > before.seq and not _went_on(line, f.landed, 0, group.seq)]
            need = Need.FAILURE if causes else Need.PLANNED if planned else Need.UNPROVOKED
            episodes.append(_Episode(groups=[group], faults=causes, need=need, declared=next(iter(declared), None)))
        spent |= {f.landed.seq for f in causes}
    return episodes


def _undone(line: Lineage, group: Group) -> bool:
    """Whether work was lost with the group before: nobody plans that."""
    frontier, _ = line.frontier(group.forming or group.event)
    return frontier > group.step


def _again(history: History, faults: Iterable[Struck], before: Group, declared: list[Event]) -> list[Struck]:
    """Faults that were recovered from and struck once more, as a stuck bit does in the next process on its device."""
    found = []
    for fault in faults if declared else ():
        hits = [
            e for m in fault.members for e in history.of("hook.hit", member=m) if before.seq < e.seq < declared[0].seq
        ]
        if hits and (fault.healed is None or fault.healed.seq > hits[0].seq):
            found.append(msgspec.structs.replace(fault, landed=hits[-1], injecting=hits[-1]))
    return found


def _still(
    history: History, line: Lineage, roster: Roster, faults: list[Struck], before: Group, declared: list[Event]
) -> list[Struck]:
    """Faults that stood on after a recovery and that the next group died of too, as of a disk that stays full.

    Their second strike is no event of its own: it is dated from the death, or else the declaration, of a member hit.
    A fault whose heal tells how often it took effect explains no more failures than that.
    """
    found = []
    for fault in faults:
        if fault.instant or (fault.healed is not None and fault.healed.seq < before.seq):
            continue
        hit = roster.struck(fault)
        accused = next((e for e in declared if e.get("member") in hit or roster.node(e.get("member")) in hit), None)
        if accused is None or not _enough(history, line, fault, before):
            continue
        gone = history.of("member.exited", member=accused.get("member"))
        sign = next((e for e in gone if before.seq < e.seq < accused.seq), accused)
        found.append(msgspec.structs.replace(fault, landed=sign, injecting=sign))
    return found


def _enough(history: History, line: Lineage, fault: Struck, before: Group) -> bool:
    """Whether it took effect more often than it was recovered from until `before`, as far as its heal tells."""
    hits = (fault.healed.get("evidence") or {}).get("hits") if fault.healed else None
    if not isinstance(hits, int):
        return True
    failures = [e.seq for e in history.of("failure.detected") if fault.landed.seq < e.seq < before.seq]
    formed = [g.seq for g in line.groups if fault.landed.seq < g.seq <= before.seq]
    return hits > sum(1 for a, b in pairwise([fault.landed.seq, *formed]) if any(a < f < b for f in failures))


def _causes(line: Lineage, roster: Roster, faults: list[Struck], declared: list[Event], group: Group) -> list[Struck]:
    """The faults behind a re-formation: not those that work had gone on after, until another one struck."""
    first = declared[0].seq if declared else group.forming.seq if group.forming else group.seq
    accused = {roster.node(e.get("member")) for e in declared}
    causes = []
    for index, fault in enumerate(faults):
        healed = not fault.instant and fault.healed is not None and fault.healed.seq < first
        if healed and fault.healed and _went_on(line, fault.healed, 0, first):
            continue
        later = faults[index + 1].injecting.seq if index + 1 < len(faults) else None
        hit = roster.hit(fault)
        if (
            later is not None
            and not accused & {roster.node(m) for m in hit}
            and _went_on(line, fault.landed, _WINDOW, later)
        ):
            continue
        causes.append(fault)
    return causes


def _went_on(line: Lineage, since: Event, steps: int, until: int) -> bool:
    """Whether a whole group got more than `steps` beyond its frontier between an event and `until`."""
    frontier, _ = line.frontier(since)
    shown = line.progress(frontier + steps, since.seq)
    return shown is not None and shown.last.seq < until


def _worked(line: Lineage, group: Group) -> bool:
    """Whether the group completed a step on all ranks before it had to be formed again."""
    return any(e.whole for e in line.runs[group.index].values())


# --- one episode -----------------------------------------------------------------------------------------------------


def _recovery(history: History, line: Lineage, episode: _Episode, warm: float | None, pace: float | None) -> Recovery:
    group, first = episode.groups[-1], episode.groups[0]
    before = line.groups[first.index - 1]
    declared = _declared(history, episode)
    start = _start(episode, declared)
    declared_t = max(declared.t if declared else start.t, start.t)
    loading, loaded = _loads(history, line, group)
    formed_t = max(min([group.t, *([loading.t] if loading else [])]), declared_t)
    loaded_t = max(loaded.t if loaded else formed_t, formed_t)
    steps = [e for _, e in sorted(line.runs[group.index].items()) if e.whole]
    at_speed = _at_speed(steps, max(loaded_t, formed_t), warm, pace)
    evidence = {
        "began": start.seq, "detect": declared.seq if declared else start.seq, "restart": group.seq,
        **({"load": loaded.seq} if loaded else {}), **({"warmup": at_speed.last.seq} if at_speed else {}),
    }  # fmt: skip
    loss = _loss(history, line, episode, start)
    beyond = None if loss.frontier is None else line.progress(loss.frontier, group.seq)
    resume = steps[0].last.t - start.t if steps else None
    ranks = before.world or group.world
    lost_time = None if resume is None or loss.seconds is None or ranks is None else ranks * (resume + loss.seconds)
    unprovoked = not episode.faults
    return Recovery(
        need=episode.need,
        faults=tuple(f.step for f in episode.faults),
        members=tuple(dict.fromkeys(m for f in episode.faults for m in f.whom)),
        began=start.t,
        complete=at_speed is not None,
        epoch=group.epoch,
        world=(before.world, group.world),
        formations=len(episode.groups),
        detect=0.0 if unprovoked else declared_t - start.t,
        restart=formed_t - declared_t,
        load=loaded_t - formed_t,
        warmup=at_speed.last.t - loaded_t if at_speed else None,
        total=at_speed.last.t - start.t if at_speed else None,
        resume=resume,
        catch_up=beyond.last.t - start.t if beyond else None,
        frontier=loss.frontier,
        restored=group.step,
        generation=group.generation,
        lost_steps=loss.steps,
        lost_samples=loss.samples,
        lost_seconds=loss.seconds,
        lost_member_seconds=lost_time,
        note=loss.note,
        evidence={**evidence, **({"frontier": loss.seq} if loss.seq is not None else {})},
    )


def _declared(history: History, episode: _Episode) -> Event | None:
    """The first declaration of a failure after the first fault, else of the re-formation."""
    since = episode.faults[0].injecting.seq if episode.faults else -1
    until = episode.groups[-1].seq
    if not episode.faults and episode.declared is not None:
        return episode.declared
    if episode.faults:
        for event in history.of("failure.detected"):
            if since <= event.seq < until:  # equal where the declaration is the first sign of a fault's second strike
                return event
    return next((g.forming for g in episode.groups if g.forming and g.forming.seq > since), None)


def _start(episode: _Episode, declared: Event | None) -> Event:
    if episode.faults:
        fault = episode.faults[0]
        early = declared is not None and fault.injecting.seq < declared.seq < fault.landed.seq
        return fault.injecting if early else fault.landed
    return declared or episode.groups[0].event


def _loads(history: History, line: Lineage, group: Group) -> tuple[Event | None, Event | None]:
    """The first `checkpoint.loading` and the last `checkpoint.loaded` or `state.resumed` of that incarnation."""
    since = group.forming.seq if group.forming else (line.groups[group.index - 1].seq if group.index else -1)
    later = [g.seq for g in line.groups[group.index + 1 : group.index + 2]]
    until = later[0] if later else sys.maxsize

    def within(kind: str) -> list[Event]:
        return [e for e in history.of(kind, epoch=group.epoch) if since < e.seq < until]

    loading, loaded = within("checkpoint.loading"), within("checkpoint.loaded") + within("state.resumed")
    first = min(loading, key=lambda e: e.t, default=None)
    return first, max(loaded, key=lambda e: e.t, default=None)


def _pace(line: Lineage, faults: tuple[Struck, ...]) -> float | None:
    """Median seconds a step of the first group takes before the first fault."""
    if not line.groups:
        return None
    until = faults[0].injecting.seq if faults else None
    steps = [e for _, e in sorted(line.runs[0].items()) if e.whole and (until is None or e.last.seq < until)]
    gaps = [b.last.t - a.last.t for a, b in pairwise(steps)]
    return median(gaps) if gaps else None


def _at_speed(steps: list[Execution], begun: float, warm: float | None, pace: float | None) -> Execution | None:
    if warm is None or pace is None:
        return steps[0] if steps else None
    times = [begun, *(e.last.t for e in steps)]
    for index, execution in enumerate(steps, start=1):
        back = max(index - _WINDOW, 0)
        mean = (times[index] - times[back]) / (index - back)
        if mean * warm <= pace:
            return execution
    return None


# --- what was lost ---------------------------------------------------------------------------------------------------


class _Loss(msgspec.Struct, frozen=True, kw_only=True):
    frontier: int | None
    steps: int | None
    samples: int | None
    seconds: float | None
    seq: int | None
    note: str


def _loss(history: History, line: Lineage, episode: _Episode, start: Event) -> _Loss:
    group, first = episode.groups[-1], episode.groups[0]
    marks = [f.landed for f in episode.faults if f.landed.seq < group.seq] or [start]
    note = ""
    frontier, found = max((line.frontier(m) for m in marks), key=lambda pair: pair[0])
    if not episode.faults or group.step > frontier:
        late, last = line.frontier(group.forming or group.event)
        if late > frontier:
            if episode.faults:
                note = f"the target went on from step {frontier} to {late} before the fault stopped it"
            frontier, found = late, last
    steps = frontier - group.step
    path = _path(line, first, group.step, frontier)
    found = found or path.get(frontier)
    samples = _samples(history, [e for step, e in path.items() if step > group.step], steps)
    return _Loss(
        frontier=frontier,
        steps=steps,
        samples=samples,
        seconds=_seconds(line, path, group, frontier, found),
        seq=found.first.seq if found else None,
        note=note,
    )


def _path(line: Lineage, first: Group, cut: int, frontier: int) -> dict[int, Execution]:
    """What the job was made of just before group `first` was formed: the executions of steps `cut` to `frontier`."""
    path: dict[int, Execution] = {}
    for group in reversed(line.groups[: first.index]):
        run = line.runs[group.index]
        path |= {step: run[step] for step in range(max(group.step + 1, cut), frontier + 1) if step in run}
        frontier = min(frontier, group.step)
        if frontier < cut:
            break
    return path


def _samples(history: History, lost: list[Execution], steps: int) -> int | None:
    job = history.first("job.started")
    if job and job.get("batch") is not None:
        return steps * int(job.get("batch"))
    counted = sum(len(e.samples()) for e in lost)
    return counted if counted or not steps else None


def _seconds(
    line: Lineage, path: dict[int, Execution], group: Group, frontier: int, found: Execution | None
) -> float | None:
    """From the restored cut to the frontier."""
    if frontier <= group.step:
        return 0.0
    saved = path.get(group.step)
    cut = saved.last.t if saved else line.groups[0].t if group.step == line.groups[0].step else None
    return None if found is None or cut is None else max(found.first.t - cut, 0.0)


def _untouched(history: History, line: Lineage, fault: Struck) -> Recovery:
    """A fault after which no group was formed: work went on, or it never did."""
    frontier, _ = line.frontier(fault.landed)
    beyond, over = line.progress(frontier, fault.landed.seq), job_over(history, fault)
    shown = over or (beyond.last if beyond else history.first("job.completed", after=fault.landed.seq))
    ended = _ended(history, fault)
    shown = None if ended else shown
    group = line.group_at(fault.landed.seq)
    hit = Roster(history).hit(fault)
    waited = max(shown.t - fault.landed.t, 0.0) if shown else None
    went_on = "the job was over when it landed" if over else "no recovery was needed: nothing was lost and work went on"
    seen = next((e for e in history.of("failure.detected") if e.seq > fault.injecting.seq), None)
    if seen is not None and shown is not None and seen.seq > shown.seq:
        seen = None
    return Recovery(
        need=Need.NONE if shown else Need.FAILURE,
        faults=(fault.step,),
        members=fault.whom or tuple(sorted(hit)),
        began=fault.landed.t,
        complete=shown is not None,
        epoch=group.epoch if group else None,
        world=(group.world, group.world) if group else (None, None),
        detect=max(seen.t - fault.landed.t, 0.0) if seen else None,
        resume=waited,
        catch_up=waited,
        frontier=frontier,
        restored=frontier if shown else None,
        lost_steps=0 if shown else None,
        lost_samples=0 if shown else None,
        lost_seconds=0.0 if shown else None,
        note=went_on if shown else "it ended the target" if ended else "no group was formed after it",
        evidence={
            "began": fault.landed.seq,
            **({"resume": shown.seq} if shown else {}),
            **({"ended": ended.seq} if ended else {}),
        },
    )


def _ended(history: History, fault: Struck) -> Event | None:
    """The end of the target, where a signal of the fault brought it: what its orphans still did is no recovery."""
    end = history.first("target.finished", after=fault.landed.seq)
    if end is None or (end.get("code") or 0) >= 0 or end.get("member") not in fault.members:
        return None
    return None if history.last("job.completed", before=end.seq) else end
