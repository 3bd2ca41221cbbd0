"""Silent corruption: a value in memory that nobody wrote."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated, Literal

from msgspec import Meta

from chaos.api import JSON, Duration, Fault, Hooks, Landing, Ratio, Selection, Selector
from chaos.faults._tampering import Since, Where, change, tampering

Bit = Literal["sign", "exponent", "mantissa"] | Annotated[int, Meta(ge=0, le=31)]
Persistence = Literal["transient", "intermittent", "stuck-at"]
BITS = {"sign": 31, "exponent": 30, "mantissa": 22}  # the highest of each: what can be seen at all is seen best there


class Corrupt(Fault[Hooks], frozen=True, kw_only=True):
    """Flip one bit of a 32-bit float in the memory of members, at a site that the target offers.

    `bit`: sign, exponent, mantissa (the highest bit of each) or a number from 0 (lowest of the mantissa) to 31.
    `transient` flips it once, `intermittent` at `rate` of the calls (dice by `seed`), `stuck-at` holds it at `value`
    at every call, `times` times at most. A persistent fault belongs to the device: it also hits the next process of
    that name. The first hit is the first call that fits `where` and `since`. A failpoint holds a member until the fault
    has landed, and so before it can be hit: use another trigger.

    Proof: index, bits and value of the element before and after, read back from the tensor's own memory.

    Heal: the hook is off, as the member says; the changed value stays.
    """

    fidelity = (
        "a defective unit or a bit flip that no ECC sees: one wrong value, no error. It acts on the value between two "
        "operations, so a unit that is wrong inside of one, for some operands only, is not shown."
    )

    members: Selector
    site: Annotated[str, Meta(examples=["gradient", "weight", "activation", "moment"])] = "gradient"
    bit: Bit = "exponent"
    persistence: Persistence = "transient"
    rate: Ratio = 0.1
    seed: int = 0
    value: Annotated[int, Meta(ge=0, le=1)] = 1
    times: Annotated[int, Meta(ge=1)] | None = None  # hits at most; a transient one has one
    at: Ratio = 0.5  # which element, as a share of the tensor
    where: Where = {}
    since: Since = {}
    within: Duration = 30.0  # for the first hit

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Hooks, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        return tampering(target, hit[0], self.site, self._deed(), self.within)

    def _deed(self) -> JSON:
        bit = BITS[self.bit] if isinstance(self.bit, str) else self.bit
        hold: dict[str, JSON] = {
            "stuck-at": {"value": self.value},
            "intermittent": {"rate": self.rate, "seed": self.seed},
        }
        return change(
            "stick" if self.persistence == "stuck-at" else "flip",
            where=self.where, since=self.since, times=1 if self.persistence == "transient" else self.times,
            bit=bit, at=self.at, **hold.get(self.persistence, {}),
        )  # fmt: skip
