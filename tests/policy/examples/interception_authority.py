"""Examples of the rule of the same name."""

from tests.policy.examples.declare import UNKNOWN, gateway_policy

_TYPE, _PROPS = gateway_policy()

PASSING = {
    "with a certificate": gateway_policy(),
    "known after up": (_TYPE, {**_PROPS, "ca_certificate": UNKNOWN}),
    "not intercepted": (
        _TYPE,
        {"policy": gateway_policy(tls_interception=False)[1]["policy"], "ca_certificate": ""},
    ),
}
FAILING = {
    "empty": (_TYPE, {**_PROPS, "ca_certificate": ""}),
    "missing": (_TYPE, {"policy": _PROPS["policy"]}),
    "no policy": (_TYPE, {}),
}
