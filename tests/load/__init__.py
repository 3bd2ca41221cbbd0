"""Tests of `chaos.load`."""
