"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, container

PASSING = {
    "no": container(restart="no"),
    "missing": container(restart=ABSENT),
    "the pod may": container(role="dns", restart="unless-stopped"),
}
FAILING = {
    "always": container(restart="always"),
    "unless stopped": container(restart="unless-stopped"),
    "on failure": container(restart="on-failure"),
}
