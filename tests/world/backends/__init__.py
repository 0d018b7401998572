"""Servers that others wrote, as origins: nginx, Python's and Node's own, gRPC's."""
