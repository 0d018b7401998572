"""Examples of the rule of the same name."""

from policy.resources import DOMAIN_POSTURE
from tests.policy.examples.declare import Example

PASSING: dict[str, Example] = {"hardened": (DOMAIN_POSTURE, {"hardened": {"filter": "abox-dev"}})}
FAILING: dict[str, Example] = {
    "template": (DOMAIN_POSTURE, {"hardened": {}}),
    "missing": (DOMAIN_POSTURE, {}),
}
