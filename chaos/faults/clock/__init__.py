"""Faults of wall clocks: what a member is told when it asks for the time."""
