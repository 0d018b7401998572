"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, container

_TWO = [{"name": "one"}, {"name": "two"}]

PASSING = {
    "one": container(networksAdvanced=[{"name": "0123", "ipv4Address": "10.10.3.10"}]),
    "unknown in preview": container(),
    "no mode": container(networkMode=ABSENT),
    "pause has two": container(role="pause", networksAdvanced=_TWO),
    "dns joins the pod": container(role="dns", networkMode="container:01", networksAdvanced=ABSENT),
}
FAILING = {
    "two": container(networksAdvanced=_TWO),
    "none": container(networksAdvanced=[]),
    "missing": container(networksAdvanced=ABSENT),
    "the engine's bridge": container(networksAdvanced=[{"name": "bridge"}]),
    "the host's": container(networkMode="host"),
    "joined": container(networkMode="container:0123", networksAdvanced=ABSENT),
}
