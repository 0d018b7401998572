"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, container

PASSING = {"true": container(readOnly=True)}
FAILING = {
    "false": container(readOnly=False),
    "missing": container(readOnly=ABSENT),
    "text": container(readOnly="true"),
    "any container": container(role=None, readOnly=False),
}
