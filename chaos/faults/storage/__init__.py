"""Disks and file systems that fail, as a member sees them."""
