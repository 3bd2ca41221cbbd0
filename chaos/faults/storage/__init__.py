"""Faults of disks and file systems."""
