"""The tap: file operations of members stopped before they happen, by seccomp user notification. See docs/storage.md."""
