"""One rank of the group: data, model, state, checkpoint, and the loop that joins them."""
