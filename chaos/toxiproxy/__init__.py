"""A server with Toxiproxy's HTTP API, as a process of its own: `python -m chaos.toxiproxy`. See docs/toxiproxy.md."""
