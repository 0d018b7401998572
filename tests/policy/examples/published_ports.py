"""Examples of the rule of the same name."""

from tests.policy.examples.declare import container

PASSING = {
    "missing": container(),
    "empty": container(ports=[]),
    "null": container(ports=None),
    "not all": container(publishAllPorts=False),
}
FAILING = {
    "fixed": container(ports=[{"internal": 80, "external": 8080}]),
    "chosen by the engine": container(ports=[{"internal": 80}]),
    "on loopback": container(ports=[{"internal": 80, "external": 80, "ip": "127.0.0.1"}]),
    "udp": container(ports=[{"internal": 53, "external": 53, "protocol": "udp"}]),
    "of the gateway": container(role="pause", ports=[{"internal": 8080, "external": 8080}]),
    "any container": container(role=None, ports=[{"internal": 80, "external": 8080}]),
    "all": container(publishAllPorts=True),
    "no list": container(ports="8080:80"),
}
