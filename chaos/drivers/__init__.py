"""Ways to start and reach a target; see `chaos/api.py`."""
