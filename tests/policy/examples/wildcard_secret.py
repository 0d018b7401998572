"""Examples of the rule of the same name."""

from tests.policy.examples.declare import Example, allowing, gateway_policy

INJECT = [{"header": "Authorization", "secret": "api_key"}]


def injecting(*hosts: str, inject: object = INJECT) -> Example:
    return gateway_policy(
        allow=[{"host": host, "ports": [443], "inject": inject} for host in hosts]
    )


PASSING = {
    "exact": injecting("api.allowed.test"),
    "wildcard without": allowing("*.wild.test", "allowed.test"),
    "empty": injecting("*.wild.test", inject=[]),
    "nothing": gateway_policy(allow=[]),
    "as text": gateway_policy(allow=["*.wild.test"]),
}
FAILING = {
    "wildcard": injecting("*.wild.test"),
    "beside a good one": injecting("api.allowed.test", "*.wild.test"),
    "one header": injecting("*.wild.test", inject=INJECT[0]),
    "no list": injecting("*.wild.test", inject="Authorization"),
}
CONFIGURED = {
    "passing": ({"allowed": ["*.wild.test"]}, injecting("*.wild.test")),
    "failing": ({"allowed": ["*.wild.test"]}, injecting("*.other.test")),
}
