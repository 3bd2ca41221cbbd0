"""Programs that use well-known libraries as their documentation says, and report what they saw."""
