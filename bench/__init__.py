"""Figures of a sandbox, each beside a bare comparison in the same run."""
