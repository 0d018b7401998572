"""A random attack from inside a sandbox, counted from outside: ``make attack``."""
