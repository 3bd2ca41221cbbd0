"""A serving stack that survives what a client would feel: router, replicas, feature and session store, and its load."""
