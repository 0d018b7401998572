"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, network

PASSING = {
    "internal": network(),
    "without a role": network(role=None),
    "egress": network(role="egress", internal=False),
    "driver missing": network(driver=ABSENT),
    "ipv6 missing": network(ipv6=ABSENT),
    "ipv6 on egress": network(role="egress", internal=False, ipv6=True),
}
FAILING = {
    "open": network(internal=False),
    "missing": network(internal=ABSENT),
    "open without a role": network(role=None, internal=False),
    "text": network(internal="true"),
    "role that looks like egress": network(role="egress2", internal=False),
    "on the host's interface": network(driver="macvlan", options={"parent": "eth0"}),
    "the host's": network(driver="host"),
    "ipv6": network(ipv6=True),
    "ipv6 without a role": network(role=None, ipv6=True),
}
