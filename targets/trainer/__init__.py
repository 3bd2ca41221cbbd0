"""A real elastic training job with its own recovery: store, coordinator, agent, worker. See PROTOCOL.md."""
