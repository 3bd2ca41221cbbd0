"""`noop`."""

from __future__ import annotations

from chaos.toxiproxy.toxic import Stage


class Noop(Stage):
    """Pass everything on."""
