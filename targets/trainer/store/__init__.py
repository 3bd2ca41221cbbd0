"""The resource boundary: epochs, leases, shards and generations, each change guarded by the epoch of whoever asks."""
