"""Faults of checkpoints at rest."""
