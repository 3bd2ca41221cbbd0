"""S5 and S7: planned stops, and what failed work leaves behind."""

from __future__ import annotations

import msgspec
import pytest
from judge.serving_histories import Stack, control

from chaos.history import History
from chaos.invariants.clean_drain import CleanDrain
from chaos.invariants.reclaim import Reclaim
from chaos.verdict import Outcome

DRAIN, RECLAIM = CleanDrain(), Reclaim()


class TestCleanDrain:
    def draining(self, flight: int = 200, *, member: str = "replica-1", status: int | None = None) -> Stack:
        """Replica 1 is told to stop with one request in flight that ends so."""
        stack = Stack().open().serve(30)
        stack.fault("process.preempt", member)
        began = stack.t - 0.1
        stack.add("drain.begun", member, member=member, in_flight=1, streams=0)
        if flight:
            replica = member if member != "router" else "replica-0"
            stack.ask((replica, flight), *([("replica-0", 200)] if status == 200 else []), began=began, seconds=0.3)
        return stack

    def gone(self, stack: Stack, *, lost: int = 0, code: int = 0, member: str = "replica-1") -> Stack:
        stack.add("drain.ended", member, member=member, seconds=0.3, lost=lost)
        role = "router" if member == "router" else "replica"
        stack.add("member.exited", member=member, role=role, pid=stack.pids.get(member, 101), code=code)
        return stack

    def test_a_drain_that_ends_what_is_in_flight_passes(self) -> None:
        stack = self.draining()
        stack.ask(("replica-1", -503), ("replica-0", 200))
        verdict = DRAIN.check(self.gone(stack).serve(30, "replica-0").close().history)
        assert verdict.outcome is Outcome.PASS
        assert "1 drain lost nothing: replica-1 ended 1 request in flight" in verdict.reason

    @pytest.mark.parametrize(("flight", "ago"), [(0, 0.1), (500, 0.1), (-503, 1.1)])
    def test_a_request_in_flight_that_is_lost_fails_even_if_it_was_saved_elsewhere(
        self, flight: int, ago: float
    ) -> None:
        stack = Stack().open().serve(30)
        began = stack.t - ago
        stack.add("drain.begun", "replica-1", member="replica-1", in_flight=1, streams=0)
        stack.ask(("replica-1", flight), ("replica-0", 200), began=began, seconds=ago + 0.2)
        verdict = DRAIN.check(self.gone(stack).serve(9, "replica-0").close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "1 request in flight was lost when replica-1 was told to stop" in verdict.reason

    def test_one_that_was_on_its_way_may_be_refused_and_served_elsewhere(self) -> None:
        stack = self.draining()
        stack.ask(("replica-1", -503), ("replica-0", 200), began=stack.t - 0.25, seconds=0.3)
        verdict = DRAIN.check(self.gone(stack).serve(9, "replica-0").close().history)
        assert verdict.outcome is Outcome.PASS

    def test_one_that_ran_out_of_time_meanwhile_was_not_lost(self) -> None:
        stack = Stack().open().serve(30)
        began = stack.t - 0.1
        stack.add("drain.begun", "replica-1", member="replica-1", in_flight=2, streams=0)
        stack.ask(("replica-1", 200), began=began, seconds=0.3)
        stack.ask(("replica-1", 0), ("replica-0", 200), began=began, seconds=0.5)
        assert DRAIN.check(self.gone(stack).serve(9, "replica-0").close().history).outcome is Outcome.PASS

    def test_a_new_request_that_is_taken_fails(self) -> None:
        stack = self.draining().wait(0.2)
        stack.ask(("replica-1", 200))
        verdict = DRAIN.check(self.gone(stack).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-1 took 1 new request after it had begun to drain" in verdict.reason

    def test_one_that_goes_on_being_asked_fails(self) -> None:
        stack = self.draining().serve(40, "replica-0")
        stack.ask(("replica-1", -503), ("replica-0", 200))
        verdict = DRAIN.check(self.gone(stack).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "1 request was sent to replica-1 more than 1 s after it had begun to drain" in verdict.reason

    def test_a_client_that_notices_fails(self) -> None:
        stack = self.draining().wait(0.1)
        stack.ask(("replica-1", -503), status=503)
        verdict = DRAIN.check(self.gone(stack).serve(9, "replica-0").close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "1 client noticed that replica-1 was told to stop" in verdict.reason

    def test_a_drain_that_cuts_or_ends_with_an_error_fails(self) -> None:
        cut = DRAIN.check(self.gone(self.draining(), lost=2).serve(9, "replica-0").close().history)
        assert cut.outcome is Outcome.FAIL
        assert "replica-1 cut 2 requests" in cut.reason
        killed = DRAIN.check(self.gone(self.draining(), code=-9).serve(9, "replica-0").close().history)
        assert killed.outcome is Outcome.FAIL
        assert "replica-1 ended with -9 while it drained" in killed.reason

    def test_a_drain_that_never_ends_fails(self) -> None:
        stack = self.draining().serve(400, "replica-0")
        verdict = DRAIN.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "the drain of replica-1 was not over after" in verdict.reason

    def test_a_member_that_is_told_to_stop_and_just_stops_fails(self) -> None:
        stack = Stack().open().serve(30)
        stack.fault("process.preempt", "replica-1")
        stack.exit("replica-1", -15)
        verdict = DRAIN.check(stack.serve(9, "replica-0").close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-1 was told to stop (process.preempt) and ended with -15, and never drained" in verdict.reason

    def test_a_router_that_drains_is_judged_by_its_clients(self) -> None:
        good = self.gone(self.draining(member="router"), member="router").close()
        assert DRAIN.check(good.history).outcome is Outcome.PASS
        lost = self.gone(self.draining(500, member="router"), member="router").close()
        assert "1 request in flight was lost when router" in DRAIN.check(lost.history).reason
        taken = self.draining(member="router").wait(0.2)
        taken.ask(("replica-0", 200))
        verdict = DRAIN.check(self.gone(taken, member="router").close().history)
        assert "router took 1 new request" in verdict.reason

    def test_a_request_that_waited_in_the_queue_of_a_draining_router_was_taken_before(self) -> None:
        stack = Stack().open().serve(30)
        began = stack.t - 0.1
        stack.add("drain.begun", "router", member="router", in_flight=1, streams=0)
        stack.ask(("replica-0", 200), queued=0.5, began=began)
        assert DRAIN.check(self.gone(stack, member="router").close().history).outcome is Outcome.PASS

    def test_what_a_drain_cut_must_be_told(self) -> None:
        events = self.gone(self.draining()).serve(9, "replica-0").close().events
        others = [e for e in events if e.kind != "drain.ended"]
        bare = [msgspec.structs.replace(e, data={**e.data, "lost": None}) if e not in others else e for e in events]
        for record in (others, bare):
            verdict = DRAIN.check(History(record))
            assert verdict.outcome is Outcome.UNKNOWN
            assert "nobody tells what replica-1 cut at the end" in verdict.reason

    def test_no_drain_nothing_in_flight_or_an_open_end_are_unknown(self) -> None:
        assert DRAIN.check(control().history).outcome is Outcome.UNKNOWN
        idle = DRAIN.check(self.gone(self.draining(0)).serve(9, "replica-0").close().history)
        assert idle.outcome is Outcome.UNKNOWN
        assert "nothing was in flight when replica-1 drained" in idle.reason
        open_ = DRAIN.check(self.draining().serve(9, "replica-0").close().history)
        assert open_.outcome is Outcome.UNKNOWN
        assert "the record ends while replica-1 drains" in open_.reason

    def test_the_end_of_the_run_is_no_planned_stop(self) -> None:
        stack = Stack().open().serve(30)
        stack.close()
        stack.add("drain.begun", "replica-1", member="replica-1", in_flight=0, streams=0)
        assert DRAIN.check(stack.history).outcome is Outcome.UNKNOWN


class TestReclaim:
    def broke(self) -> Stack:
        """A stream of replica 0 breaks off."""
        stack = Stack().open().serve(30)
        for name in stack.pids:
            stack.usage(name)
        stack.stream(("replica-0", 0), tokens=9, error="cut")
        return stack

    def after(self, stack: Stack, times: int = 10, **more: int) -> Stack:
        for _ in range(times):
            stack.serve(9, "replica-0", "replica-2")
            stack.usage("replica-0", **more)
        return stack.close()

    def test_what_was_given_back_passes(self) -> None:
        verdict = RECLAIM.check(self.after(self.broke()).history)
        assert verdict.outcome is Outcome.PASS
        assert "1 piece of failed work left nothing behind at 1 replica" in verdict.reason

    def test_blocks_of_nobody_fail(self) -> None:
        verdict = RECLAIM.check(self.after(self.broke(), blocks=9).history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-0 keeps 9 KV blocks, though its living sessions hold 4" in verdict.reason

    def test_blocks_that_are_given_back_in_time_pass(self) -> None:
        stack = self.broke()
        stack.usage("replica-0", blocks=9)
        stack.serve(20, "replica-2").usage("replica-0", blocks=9)
        assert RECLAIM.check(self.after(stack).history).outcome is Outcome.PASS

    def test_work_for_nobody_fails(self) -> None:
        stack = self.broke()
        for _ in range(10):
            stack.wait(0.5).usage("replica-0", in_flight=1)
        verdict = RECLAIM.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-0 says that 1 request is at work" in verdict.reason

    def test_work_while_somebody_waits_is_no_leak(self) -> None:
        stack = self.broke()
        began = stack.t
        for _ in range(10):
            stack.wait(0.5).usage("replica-0", in_flight=1)
        stack.stream(("replica-0", 200), began=began, seconds=5.0)
        stack.serve(80, "replica-2").usage("replica-0")
        assert RECLAIM.check(stack.close().history).outcome is Outcome.PASS

    def test_memory_that_is_kept_fails(self) -> None:
        verdict = RECLAIM.check(self.after(self.broke(), rss=700 << 20).history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-0 ended with 300 MiB more" in verdict.reason
        assert Reclaim(memory=400 << 20).check(self.after(self.broke(), rss=700 << 20).history).outcome is Outcome.PASS

    def test_a_session_that_went_on_elsewhere_leaves_its_blocks_behind_it(self) -> None:
        stack = Stack().open()
        stack.stream(("replica-0", 200))
        stack.fault("process.freeze", "replica-0", instant=False)
        stack.add(
            "session.resumed", "replica-2", replica="replica-2", session="s1", turn=1, way="replica", recomputed=0
        )
        stack.stream(("replica-2", 200), turn=1, resumed="replica")
        stack.heal("process.freeze")
        verdict = RECLAIM.check(self.after(stack.copy()).history)
        assert verdict.outcome is Outcome.PASS
        assert RECLAIM.check(self.after(stack, blocks=9).history).outcome is Outcome.FAIL

    def test_no_failed_work_or_nobody_who_lived_on_is_unknown(self) -> None:
        assert RECLAIM.check(control().history).outcome is Outcome.UNKNOWN
        dead = self.broke()
        dead.kill("replica-0")
        verdict = RECLAIM.check(dead.serve(80, "replica-2").close().history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "work of replica-0 failed, and no replica that lived on told of its usage" in verdict.reason
        silent = self.broke().serve(80).close()
        assert RECLAIM.check(silent.history).outcome is Outcome.UNKNOWN
