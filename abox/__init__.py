"""The pure library of abox: settings, allowlist, addresses, renderers. Data in, data out, no I/O."""
