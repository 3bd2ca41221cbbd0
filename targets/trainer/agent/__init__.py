"""One agent a node: forks a worker for each incarnation of the group, and ends it."""
