"""Promises, each a pure function of a history: one file, one class each."""
