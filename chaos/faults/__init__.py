"""Ways to break a target: one file, one class, one kind each; see `chaos/api.py`."""
