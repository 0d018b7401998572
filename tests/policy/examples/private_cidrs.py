"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, gateway_policy

PASSING = {
    "none": gateway_policy(),
    "missing": gateway_policy(allow_private_cidrs=ABSENT),
    "a site": gateway_policy(allow_private_cidrs=["10.66.0.0/16", "fd66::/32", "198.51.100.0/24"]),
}
FAILING = {
    "metadata service": gateway_policy(allow_private_cidrs=["169.254.169.254/32"]),
    "link local": gateway_policy(allow_private_cidrs=["169.254.0.0/16"]),
    "the sandboxes": gateway_policy(allow_private_cidrs=["10.10.0.0/16"]),
    "one sandbox": gateway_policy(allow_private_cidrs=["10.10.10.0/24"]),
    "around the sandboxes": gateway_policy(allow_private_cidrs=["10.0.0.0/8"]),
    "loopback": gateway_policy(allow_private_cidrs=["127.0.0.0/8"]),
    "everything": gateway_policy(allow_private_cidrs=["0.0.0.0/0"]),
    "mapped": gateway_policy(allow_private_cidrs=["::ffff:0:0/96"]),
    "host bits": gateway_policy(allow_private_cidrs=["10.66.0.5/16"]),
    "second": gateway_policy(allow_private_cidrs=["10.66.0.0/16", "::1/128"]),
    "no network": gateway_policy(allow_private_cidrs=["x"]),
}
