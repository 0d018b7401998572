"""The `abox` command: checks, drift, logs, verdicts and edits of one machine's sandboxes."""
