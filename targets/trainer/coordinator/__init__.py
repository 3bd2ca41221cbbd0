"""Who decides: membership, detection, epochs, checkpoint rounds, recovery. One leads, the other stands by."""
