"""The gate: a pure function from what must be proved and what was proved to a decision, and how that is written."""

from chaos.gate.catalogue import Candidate, Catalogue, Entry, Policy, Recipe, Waiver
from chaos.gate.decide import decide
from chaos.gate.decision import Decision, Finding, Reason, Ruling, State, WaiverUse
from chaos.gate.question import Calling, Question

__all__ = [
    "Calling",
    "Candidate",
    "Catalogue",
    "Decision",
    "Entry",
    "Finding",
    "Policy",
    "Question",
    "Reason",
    "Recipe",
    "Ruling",
    "State",
    "Waiver",
    "WaiverUse",
    "decide",
]  # fmt: skip
