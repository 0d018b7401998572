"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, container

PASSING = {"false": container(privileged=False), "missing": container(privileged=ABSENT)}
FAILING = {
    "true": container(privileged=True),
    "text": container(privileged="true"),
    "any container": container(role=None, privileged=True),
}
