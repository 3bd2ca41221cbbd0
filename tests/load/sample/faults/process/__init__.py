"""Tiny plugins that the tests of the registry and the loader know in full."""
