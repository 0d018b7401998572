"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, container

PASSING = {"no swap": container(), "as floats": container(memory=64.0, memorySwap=64.0)}
FAILING = {
    "missing": container(memory=ABSENT, memorySwap=ABSENT),
    "zero": container(memory=0, memorySwap=0),
    "negative": container(memory=-1, memorySwap=-1),
    "swap missing": container(memorySwap=ABSENT),
    "swap without limit": container(memorySwap=-1),
    "swap beside": container(memorySwap=1024),
    "text": container(memory="512m"),
    "boolean": container(memory=True, memorySwap=True),
    "any container": container(role=None, memory=ABSENT),
}
