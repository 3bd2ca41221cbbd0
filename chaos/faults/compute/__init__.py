"""Faults of computing units: values that come out wrong."""
