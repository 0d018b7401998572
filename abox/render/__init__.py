"""Renderers: typed arguments in, configuration text out; equal arguments give equal bytes."""
