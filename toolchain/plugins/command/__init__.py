"""Stand-in for the official command plugin: local commands only."""
