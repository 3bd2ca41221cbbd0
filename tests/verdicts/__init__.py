"""When a chaos tool must not turn green: each case through the real command line; `rows.py` is their index."""
