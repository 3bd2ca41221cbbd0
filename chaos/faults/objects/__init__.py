"""Faults of object storage."""
