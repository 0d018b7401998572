"""Examples of the rule of the same name."""

from tests.policy.examples.declare import posture

PASSING = {"set": posture(pids_limit=256), "as float": posture(pids_limit=256.0)}
FAILING = {
    "missing": posture(),
    "zero": posture(pids_limit=0),
    "unlimited": posture(pids_limit=-1),
    "null": posture(pids_limit=None),
    "text": posture(pids_limit="256"),
    "boolean": posture(pids_limit=True),
    "nothing expected": (posture()[0], {}),
}
