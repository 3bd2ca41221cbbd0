"""The router: the only address that clients know. It chooses, retries, sheds, degrades and drains."""
