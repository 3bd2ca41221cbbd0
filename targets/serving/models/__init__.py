"""The models that replicas run, and what anybody may compute of them: all weights follow from (seed, generation)."""
