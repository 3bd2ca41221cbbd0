"""`python -m targets.frameworks.elastic.pod`: one node's torchrun, started again when it fails, as a kubelet does.

The agent is `torch.distributed.run` with the arguments that its documentation gives for an elastic job. It is forked
from this process, which has imported torch already; the workers are started by torchrun itself.
"""

from __future__ import annotations

import os
import sys
import time

from torch.distributed import run

from chaos.inside import emit, hello
from targets.frameworks.elastic import old_ways
from targets.frameworks.elastic.place import ADDRESS, HEAD, LIBRARY, NODE, PORT, SETTINGS, as_fork, end_job, head_store


def torchrun() -> int:
    """The agent: what `torchrun …` would do."""
    hello(f"agent-{NODE}", role="agent", node=NODE)
    if SETTINGS["guard"] == "own-store" and LIBRARY != "installed":
        os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    if LIBRARY == "as-it-was":
        old_ways.close_the_rendezvous_on_a_signal()
    rendezvous = {
        "is_host": 0, "join_timeout": 120, "last_call_timeout": SETTINGS["last_call"],
        "keep_alive_interval": 1, "keep_alive_max_attempt": SETTINGS["silence"],
    }  # fmt: skip
    emit("group.forming", world=SETTINGS["pods"], nodes=[NODE], reason="an agent was started")
    run.main([
        f"--nnodes={SETTINGS['least']}:{SETTINGS['pods']}", "--nproc-per-node=1", "--rdzv-backend=c10d",
        f"--rdzv-endpoint={HEAD}:{PORT}", "--rdzv-id=job", f"--local-addr={ADDRESS}", "--monitor-interval=0.1",
        f"--max-restarts={SETTINGS['restarts']}", "--rdzv-conf=" + ",".join(f"{k}={v}" for k, v in rendezvous.items()),
        "-m", "targets.frameworks.elastic.train",
    ])  # fmt: skip
    return 0


def main() -> int:
    hello(f"pod-{NODE}", role="pod", node=NODE)
    for failures in range(SETTINGS["pod_failures"] + 1):
        _, status = os.waitpid(as_fork(torchrun), 0)
        if (code := os.waitstatus_to_exitcode(status)) == 0:
            return 0
        emit(
            "failure.detected",
            member=f"agent-{NODE}",
            reason=f"exit code {code}, start {failures + 1}",
            **{"class": "fail-stop"},
        )
        time.sleep(SETTINGS["back_off"])
    end_job(head_store(10.0), 0, failed=f"torchrun of {NODE} ended with an error {SETTINGS['pod_failures'] + 1} times")
    return 1


if __name__ == "__main__":
    sys.exit(main())
