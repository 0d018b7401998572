"""Runs folders of case files against real sandboxes: ``python -m tests.cases DIR``."""
