"""A service that takes its time."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from chaos.exchanges import ExchangeRule
from chaos.faults.objects._requests import RequestFault


class Slow(RequestFault, frozen=True, kw_only=True):
    """Pass requests on only after `seconds`; each waits for itself.

    Proof: method, path and size of the request, and how long it was held.

    Heal: what is held now is passed on at once; those that were hit are counted.
    """

    fidelity = (
        "slow parts: a busy partition of the store, a long queue. The request is taken at full speed and waits before "
        "it has any effect; a thin line is network.bandwidth on the same link."
    )

    seconds: Annotated[float, Meta(gt=0, extra={"unit": "duration"})]

    def rule(self) -> ExchangeRule:
        return self.hitting(action="delay", delay=self.seconds)
