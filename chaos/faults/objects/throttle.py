"""A service that has had enough."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from chaos.exchanges import ExchangeRule
from chaos.faults.objects._requests import RequestFault


class Throttle(RequestFault, frozen=True, kw_only=True):
    """Answer requests with an error of the service, 503 SlowDown, and do not pass them on.

    Proof: method, path and size of the request that was refused, and the status that went over the wire.

    Heal: requests pass again; those that were hit are counted.
    """

    fidelity = (
        "request limits of an object store, and its internal errors with another status: the client is told at once. "
        "The limit here is by key and count, not by rate, so it does not move as the client slows down."
    )

    status: Annotated[int, Meta(ge=400, le=599)] = 503
    code: str = "SlowDown"

    def rule(self) -> ExchangeRule:
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{self.code}</Code><Message>Please reduce your request rate.</Message></Error>"
        )
        return self.hitting(action="refuse", status=self.status, body=body)
