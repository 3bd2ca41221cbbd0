"""Faults of who may write."""
