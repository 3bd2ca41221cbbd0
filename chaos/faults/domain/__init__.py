"""Faults of whole nodes and of what they share."""
