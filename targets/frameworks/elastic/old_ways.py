"""What the library did before it was fixed, put back at run time by the smallest patch."""

from __future__ import annotations

import signal
from typing import Any

from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent


def close_the_rendezvous_on_a_signal() -> None:
    """torch 2.3 to 2.7: an agent that is told to go closes the rendezvous, for everybody and for good (#117066).

    Taken back in 2.8 by pytorch/pytorch#152525.
    """
    shutdown = LocalElasticAgent._shutdown

    def and_close(self: Any, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        if death_sig is None:  # a restart of the workers, which was spared this by #124819
            return shutdown(self, timeout=timeout)
        shutdown(self, death_sig, timeout)
        self._rdzv_handler.shutdown()
        return None

    LocalElasticAgent._shutdown = and_close  # type: ignore[method-assign]
