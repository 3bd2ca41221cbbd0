"""A serving stack that survives what a client would feel: router, replicas, a feature and session store, and its load."""
