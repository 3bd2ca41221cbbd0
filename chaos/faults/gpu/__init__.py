"""Faults of devices, and what a driver would report of them."""
