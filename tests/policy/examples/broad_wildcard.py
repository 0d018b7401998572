"""Examples of the rule of the same name."""

from tests.policy.examples.declare import allowing, gateway_policy

PASSING = {
    "exact": allowing("allowed.test", "example.co.uk"),
    "a domain": allowing("*.wild.test", "*.example.co.uk", "*.example.com"),
    "a region of one service's names": allowing("*.api.example-cloud.com"),
    "nothing": gateway_policy(allow=[]),
}
FAILING = {
    "com": allowing("*.com"),
    "net": allowing("*.net"),
    "upper case": allowing("*.COM"),
    "root dot": allowing("*.com."),
    "public suffix": allowing("*.co.uk"),
    "rented names": allowing("*.github.io"),
    "other script": allowing("*.\u0440\u0444"),
    "buckets of anybody": allowing("*.amazonaws.com"),
    "deep below": allowing("*.windows.net"),
    "everything": allowing("*"),
    "in the middle": allowing("a.*.com"),
    "beside good ones": allowing("allowed.test", "*.org"),
    "as text": gateway_policy(allow=["*.com"]),
}
CONFIGURED = {
    "passing": ({"allowed": ["*.amazonaws.com"]}, allowing("*.amazonaws.com")),
    "failing": ({"allowed": ["*.amazonaws.com"]}, allowing("*.windows.net")),
}
