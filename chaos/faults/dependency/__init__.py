"""Faults of what a service depends on: a store that goes on answering, and answers badly."""
