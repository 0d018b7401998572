"""The pure library: settings, allowlist, addresses, renderers. Data in, data out, no I/O."""
