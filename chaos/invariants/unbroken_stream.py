"""S10: a stream that goes on elsewhere is one stream."""

from __future__ import annotations

from typing import ClassVar, Literal

from chaos.api import Duration, Invariant
from chaos.history import Event, History
from chaos.serving import Request, Service, service
from chaos.training import few, listed
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_TELLS = ("tokens", "wanted", "missing", "repeated")  # what the client must tell of a stream


class UnbrokenStream(Invariant, frozen=True, kw_only=True):
    """No token of a stream is lost or repeated, and one whose replica fails goes on within `within`.

    Judged from what the client read of each stream (`request.completed`: tokens, missing, repeated, gap) and from
    `session.resumed`. A stream that had begun and did not come to its end by its deadline has lost tokens, whatever its
    status; up to `broken` of them are allowed. Needs a failover: of a stream between two of its tokens (`failover:
    stream`), or also of a session between two turns (`any`). `recomputed` bounds the tokens that had to be computed
    again for one; `way` is how at least one of them must have come back: what was not recomputed must have been kept
    (`kv.written`) before. What is said to have been recomputed is held against what the engine counted (`computed`)
    and what the client had newly asked (`prompt` of `request.sent`); untold, `way` and `recomputed` are unknown.
    """

    id: ClassVar[str] = "S10"
    needs: ClassVar[tuple[str, ...]] = ("request.completed", "session.resumed", "attempt.completed")
    within: Duration = 2.0
    broken: int = 0
    recomputed: int | None = None
    failover: Literal["any", "stream"] = "any"
    way: Literal["recompute", "checkpoint", "replica", "external"] | None = None

    def check(self, history: History) -> Verdict:
        view = service(history)
        streams = [r for r in view.ended() if r.stream and not r.wrong]
        for request in streams:
            if said := _torn(request):
                return failed(f"stream {request.id} {said}{_whose(request)}", few(request.seqs()))
        if not streams:
            return unknown("no stream ended")
        if untold := [r for r in streams if r.status == 200 and None in [r.fact(name) for name in _TELLS]]:
            return unknown(
                f"{counted(len(untold), 'stream does not tell its tokens', 'streams do not tell their tokens')}",
                few(untold[0].seqs()),
            )
        open_ = [r for r in view.overdue() if r.stream and any(a.event.get("streamed") for a in r.attempts)]
        cut = [*(r for r in streams if _cut(r)), *open_]
        if len(cut) > self.broken:
            first = cut[0]
            if first.completed is None:
                said = f"{counted(len(cut), 'stream')} broke off: {first.id} had begun, and never came to its end"
                return failed(f"{said}{_whose(first)}", few(first.seqs()))
            return failed(
                f"{counted(len(cut), 'stream')} broke off: {first.id} after {first.fact('tokens')} of "
                f"{first.fact('wanted')} tokens (status {first.status}, {first.fact('error')}){_whose(first)}",
                few([s for r in cut[:4] for s in r.seqs()]),
            )
        return self._resumed(view, streams)

    def _resumed(self, view: Service, streams: list[Request]) -> Verdict:
        middle = [r for r in streams if r.status == 200 and _middle(r)]
        between = [
            r for r in streams if r.status == 200 and r not in middle and r.completed and r.completed.get("resumed")
        ]
        for request in (*middle, *between):
            if verdict := self._slow(request, request in middle):
                return verdict
        prompts = {(r.fact("session"), r.fact("turn")): r.fact("prompt") for r in view.requests.values() if r.stream}
        uncounted: list[int] = []
        ways: dict[tuple[object, object], set[object]] = {}
        for event in view.history.of("session.resumed"):
            prompt = prompts.get((event.get("session"), event.get("turn")))
            if verdict := _miscounted(event, prompt) or self._costly(event):
                return verdict
            ways.setdefault((event.get("session"), event.get("turn")), set()).add(event.get("way"))
            uncounted += [event.seq] if None in (prompt, event.get("computed")) else []
        if uncounted and (self.way, self.recomputed) != (None, None):
            return unknown(
                "nobody counted what was computed again when "
                f"{counted(len(uncounted), 'session')} came back: how is hearsay",
                few(uncounted),
            )
        for request in (*middle, *between):
            claimed, told = request.fact("resumed"), ways.get((request.fact("session"), request.fact("turn")))
            if claimed and told and claimed not in told:
                return failed(
                    f"the answer to {request.id} says that its session came back by {claimed}, its replica says by "
                    f"{listed(sorted(map(str, told)))}",
                    few(request.seqs()),
                )
        judged = middle if self.failover == "stream" else [*middle, *between]
        seqs = few([s for r in judged[:6] for s in r.seqs()] or [r.completed.seq for r in streams if r.completed])
        if not judged:
            return unknown(
                f"{counted(len(streams), 'stream')}, none with a token lost or repeated, and none that had to go on "
                "elsewhere",
                seqs,
            )
        back = sorted({str(r.fact("resumed")) for r in (*middle, *between) if r.fact("resumed")})
        if self.way is not None and self.way not in back:
            return failed(f"no session came back by {self.way}, but by {listed(back) or 'none'}", seqs)
        if self.way not in (None, "recompute") and not _kept(view, self.way):
            return unknown(
                f"sessions are said to have come back by {self.way}, and nobody told that any was kept", seqs
            )
        gaps = [float(r.fact("gap") or 0.0) for r in middle]
        longest = f", after at most {max(gaps):.2f} s" if gaps else ""
        return passed(
            f"{counted(len(middle), 'stream')} went on elsewhere in the middle{longest}, "
            f"{counted(len(between), 'session')} between two turns ({listed(back) or 'nothing was resumed'}); "
            f"{counted(len(streams), 'stream')} without a token lost or repeated",
            seqs,
        )

    def _slow(self, request: Request, middle: bool) -> Verdict | None:
        waited = request.fact("gap" if middle else "first")
        if waited is None or waited <= self.within:
            return None
        where = "between two tokens" if middle else "before its first token"
        return failed(
            f"stream {request.id} stood still for {waited:.2f} s {where} when it went on elsewhere; {self.within:g} s "
            "are allowed",
            few(request.seqs()),
        )

    def _costly(self, event: Event) -> Verdict | None:
        recomputed = event.get("recomputed") or 0
        if self.recomputed is None or recomputed <= self.recomputed:
            return None
        return failed(
            f"{counted(recomputed, 'token')} of session {event.get('session')} had to be computed again "
            f"({event.get('way')}); {self.recomputed} are allowed",
            (event.seq,),
        )


def _miscounted(event: Event, prompt: int | None) -> Verdict | None:
    """Whether its engine computed otherwise than is said of a session that came back.

    What the client newly asks is computed in any case, and the last token before it, which the first new one follows.
    """
    computed, said = event.get("computed"), event.get("recomputed") or 0
    if computed is None:
        return None
    if computed < said:
        but = f"only {computed}"
    elif prompt is not None and computed > said + prompt + 1:
        but = f"{computed}, where its client had asked {prompt} new ones"
    else:
        return None
    return failed(
        f"{said} tokens of session {event.get('session')} are said to have been computed again "
        f"({event.get('way')}), and the engine of {event.get('replica')} computed {but}",
        (event.seq,),
    )


def _kept(view: Service, way: str | None) -> bool:
    """Whether any session that came back in this way had been kept before."""
    written: set[object] = set()
    for event in view.history.of("kv.written", "session.resumed"):
        if event.kind == "kv.written":
            written.add(event.get("session"))
        elif event.get("way") == way and event.get("session") in written:
            return True
    return False


def _torn(request: Request) -> str:
    """What its client saw that no stream may show; empty where it did not."""
    if repeated := request.fact("repeated"):
        return f"repeated the tokens {listed(list(repeated))}"
    missing = list(request.fact("missing") or ())
    if missing and (request.status == 200 or min(missing) < (request.fact("tokens") or 0)):
        return f"lost the tokens {listed(missing)}"
    tokens, wanted = request.fact("tokens"), request.fact("wanted")
    if request.status == 200 and tokens is not None and wanted is not None and tokens < wanted:
        return f"ended after {tokens} of {counted(wanted, 'token')} as if it were whole"
    return ""


def _cut(request: Request) -> bool:
    """Whether it had begun and did not come to its end."""
    return request.status != 200 and bool(request.fact("tokens"))


def _middle(request: Request) -> bool:
    """Whether it went on at another replica after its first attempt had begun."""
    tried = [a for a in request.attempts if not a.draining]
    return len({a.replica for a in tried}) > 1 and any(a.event.get("streamed") for a in tried[:-1])


def _whose(request: Request) -> str:
    replicas = list(dict.fromkeys(a.replica for a in request.attempts))
    return f" ({' → '.join(replicas)})" if replicas else ""
