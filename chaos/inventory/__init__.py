"""Recovery paths of a target, read from its sources: nothing of it is imported or run."""
