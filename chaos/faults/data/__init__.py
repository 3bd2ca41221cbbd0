"""Faults of input data: batches that come late, cut off or wrong."""
