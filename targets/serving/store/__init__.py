"""The feature and session store: a Redis of the stack's own or what stands in for it, and who looks after it."""
