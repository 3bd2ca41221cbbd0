"""Faults of processes."""
