"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, container

PASSING = {
    "all dropped": container(),
    "lower case": container(capabilities={"drops": ["all"]}),
    "with prefix": container(capabilities={"drops": ["CAP_ALL"], "adds": []}),
}
FAILING = {
    "missing": container(capabilities=ABSENT),
    "null": container(capabilities=None),
    "empty": container(capabilities={}),
    "one dropped": container(capabilities={"drops": ["CAP_NET_RAW"]}),
    "one added": container(capabilities={"drops": ["ALL"], "adds": ["CAP_NET_ADMIN"]}),
    "added without prefix": container(
        capabilities={"drops": ["ALL"], "adds": ["NET_BIND_SERVICE"]}
    ),
    "all added": container(capabilities={"drops": ["ALL"], "adds": ["ALL"]}),
    "any container": container(role=None, capabilities=ABSENT),
}
CONFIGURED = {
    "passing": (
        {"allowed": ["NET_BIND_SERVICE"]},
        container(capabilities={"drops": ["ALL"], "adds": ["CAP_NET_BIND_SERVICE"]}),
    ),
    "failing": (
        {"allowed": ["NET_BIND_SERVICE"]},
        container(capabilities={"drops": ["ALL"], "adds": ["CAP_NET_ADMIN"]}),
    ),
}
