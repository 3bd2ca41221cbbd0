"""The judge: a pure function from a history and its contract to a result."""

from chaos.judge.contract import Contract
from chaos.judge.core import judge
from chaos.judge.recovery import measure
from chaos.judge.statistics import series

__all__ = ["Contract", "judge", "measure", "series"]
