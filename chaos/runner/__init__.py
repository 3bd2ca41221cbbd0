"""Run a schedule against a target: the only loop with effects."""

from chaos.runner.method import HealFailure
from chaos.runner.recorder import Observer
from chaos.runner.run import RunResult, run, secrets_of

__all__ = ["HealFailure", "Observer", "RunResult", "run", "secrets_of"]
