"""A request that succeeded, and nobody was told."""

from __future__ import annotations

from chaos.exchanges import ExchangeRule
from chaos.faults.objects._requests import RequestFault


class LoseResponse(RequestFault, frozen=True, kw_only=True):
    """Pass requests on, and where one succeeded reset the connection in place of the answer.

    Only an answer of 2xx is lost; another one passes, and does not count as a hit.

    Proof: method, path and size of the request, and the status of the answer that was lost.

    Heal: answers pass again; those that were lost are counted.
    """

    fidelity = (
        "a connection that breaks between the effect and the answer: the client cannot know, and must find out. The "
        "reset comes at once; an answer that just never comes is network.blackhole on the same link."
    )

    def rule(self) -> ExchangeRule:
        return self.hitting(action="lose")
