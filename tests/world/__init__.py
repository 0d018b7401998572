"""The upstream world of the tests: resolver and origins in a network namespace of their own."""

from tests.world.world import Seen, World

__all__ = ["Seen", "World"]
