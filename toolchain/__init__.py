"""Brings a machine and a checkout to where plain Pulumi works, from package registries alone.

Everything but `language_host` runs on the system's Python with the standard library, because it
runs before the checkout's venv exists.
"""
