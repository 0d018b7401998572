"""Stand-in for the official Docker plugin, over the Docker Engine API."""
