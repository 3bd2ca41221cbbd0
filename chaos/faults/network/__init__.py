"""Faults of links between nodes."""
