"""How many members live."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Probe, Scene


class Alive(Probe, frozen=True, kw_only=True):
    """Members alive now, of one role or of all. A frozen process is alive: that is what makes it hard to notice."""

    unit: ClassVar[str] = "members"
    role: str | None = None

    async def sample(self, scene: Scene) -> float | None:
        return sum(self.role in (None, member.role) for member in scene.target.members())
