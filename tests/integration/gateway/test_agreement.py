"""One allowlist: the pure verdict, the live resolver and the live proxy never disagree.

``ABOXT_AGREEMENT=100000`` in the environment asks for that many requests instead of the few that
fit into every run.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import secrets
import socket
from dataclasses import dataclass, field
from typing import Any

import dns.edns
import dns.exception
import dns.message
import dns.name
import dns.query
import dns.rcode
import pytest

from abox.allowlist import (
    HEALTH_NAME,
    Allow,
    Policy,
    Reason,
    Request,
    Verdict,
    judge_name,
    parse_policy,
    verdict,
)
from abox.query_budget import QUERIES_PER_MINUTE_MAX
from tests.integration.gateway.conftest import CIDRS, Gateway

pytestmark = [pytest.mark.integration, pytest.mark.timeout(7200)]

SAMPLE = int(os.environ.get("ABOXT_AGREEMENT", "600"))
LONG = f"{'a.' * 80}wild.test"

POLICIES: dict[str, dict[str, Any]] = {
    "plain": {"allow": ["allowed.test", "*.wild.test", "198.51.100.10", LONG]},
    "parts": {
        "allow": [
            {"host": "api.wild.test", "ports": [8080], "methods": ["GET"], "paths": ["/v1/*"]},
            {"host": "*.wild.test", "ports": [80, 8080], "paths": ["/v2/x", "/"]},
            {"host": "allowed.test", "methods": ["POST"]},
            "www.wild.test",
        ],
        "deny": ["no.wild.test", "*.no.wild.test"],
    },
    "passive": {"allow": ["allowed.test"], "deny": ["*.no.wild.test"], "mode": "passive"},
    "empty": {"allow": []},
}
HEADS = ["a", "api", "www", "no", "x-1", "_s", "A", "WwW", "xn--80ak6aa92e", "-", "1", "a" * 63,
         "a" * 64, "a*", "", "*", "%61"]  # fmt: skip
ZONES = ["wild.test", "allowed.test", "Allowed.TEST", "no.wild.test", "evil.test", "test",
         "abox.local", HEALTH_NAME, "localhost", "docker.internal", "wild.test.evil.test", LONG,
         f"{'b.' * 76}wild.test", "10.0.0.5", "198.51.100.10", "0x7f000001", "1"]  # fmt: skip
PATHS = ["/", "/v1/", "/v1/x", "/v1/../v2/x", "/v2/x", "/v1%2fx", "/v1//x", "/v2/%78", "/x?y=/v1/"]
METHODS = ["GET", "POST", "PUT", "CONNECT", "CONNECT"]
PORTS = [80, 8080, 443, 81]

LOOSE = {Reason.SPECIAL_ADDRESS, Reason.ADDRESS_LITERAL, Reason.MALFORMED_NAME}
"""Which of these is told depends on the spelling; as a whole request it may be refused as well."""


def request_of(chance: random.Random) -> Request:
    """A request that lies at the edges of the policies."""
    heads = [chance.choice(HEADS) for _ in range(chance.choice([0, 0, 1, 1, 2]))]
    name = ".".join([*heads, chance.choice(ZONES)]) + chance.choice(["", "", "", "."])
    return Request(name, chance.choice(PORTS), "http", chance.choice(METHODS), chance.choice(PATHS))


@dataclass
class Client:
    """Asks the proxy over connections that are kept, and the resolver."""

    gateway: str
    port: int
    _kept: http.client.HTTPConnection | None = field(default=None, repr=False)

    def ask(self, request: Request) -> tuple[int, str | None]:
        """Status and reason of the proxy's answer; status 0 if it only closed the connection."""
        for _ in range(2):  # a kept connection may have ended meanwhile
            try:
                return self._ask(request)
            except (http.client.HTTPException, OSError):
                self.close()
        return 0, None

    def _ask(self, request: Request) -> tuple[int, str | None]:
        if self._kept is None:
            self._kept = http.client.HTTPConnection(self.gateway, self.port, timeout=10)
        authority = f"{request.name}:{request.port}"
        tunnel = request.method == "CONNECT"
        target = authority if tunnel else f"http://{authority}{request.path}"
        self._kept.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
        self._kept.putheader("Host", authority)
        if request.method in ("POST", "PUT"):
            self._kept.putheader("Content-Length", "0")
        self._kept.endheaders()
        answer = self._kept.getresponse()
        if tunnel and answer.status == 200:
            self.close()
            return 200, None
        body = answer.read()
        if answer.will_close:
            self.close()
        is_ours = answer.headers.get("content-type") == "application/json"
        return answer.status, json.loads(body)["reason"] if is_ours else None

    def close(self) -> None:
        """Drop the kept connection."""
        if self._kept is not None:
            self._kept.close()
        self._kept = None

    def resolve(self, name: str) -> tuple[str, str | None] | None:
        """Response code and reason of the resolver's answer; None if it is no name on the wire."""
        try:
            question = dns.message.make_query(
                dns.name.from_text(name, dns.name.root), "A", use_edns=0, payload=1232
            )
        except (dns.exception.DNSException, UnicodeError):
            return None
        answer = dns.query.udp(question, self.gateway, timeout=10)
        texts = [option.text for option in answer.options if isinstance(option, dns.edns.EDEOption)]
        return dns.rcode.to_text(answer.rcode()), texts[0] if texts else None


def check_proxy(policy: Policy, request: Request, status: int, reason: str | None) -> None:
    """Compare the proxy's answer with the verdict."""
    wanted = verdict(policy, request)
    told = f"{request}: {wanted}, the proxy says {status} {reason}"
    if isinstance(wanted, Allow):
        assert status not in (0, 400, 403), told
        assert reason is None or reason.startswith("upstream_"), told
    elif wanted.reason in LOOSE:
        malformed = status in (0, 400) and reason in (None, Reason.MALFORMED_REQUEST)
        assert malformed or (status == 403 and reason in set(LOOSE)), told
    else:
        assert (status, reason) == (403, wanted.reason.value), told


def check_resolver(policy: Policy, name: str, found: tuple[str, str | None]) -> None:
    """Compare the resolver's answer with the verdict."""
    wanted: Verdict = judge_name(policy, name)
    told = f"{name}: {wanted}, the resolver says {found}"
    rcode, reason = found
    if isinstance(wanted, Allow):
        assert (rcode, reason) == ("NOERROR", None), told
    elif wanted.reason in LOOSE:
        assert rcode == "NXDOMAIN", told
        assert reason in set(LOOSE), told
    else:
        assert (rcode, reason) == ("NXDOMAIN", wanted.reason.value), told


@pytest.mark.parametrize("settings", POLICIES.values(), ids=POLICIES)
def test_one_1_verdict_resolver_and_proxy_agree(gateway: Gateway, settings: dict[str, Any]):
    seed = secrets.randbits(32)
    chance = random.Random(seed)  # noqa: S311 - a sample, no secret
    gateway.world.dns.set({"*.test": ["198.51.100.10"], "allowed.test": ["198.51.100.10"]})
    settings = {**settings, "dns_queries_per_minute": QUERIES_PER_MINUTE_MAX}
    settings["allow_private_cidrs"] = CIDRS
    gateway.apply(settings["allow"], **{k: v for k, v in settings.items() if k != "allow"})
    policy = parse_policy(**settings)
    client = Client(gateway.pod.gateway, gateway.pod.proxy_port)
    allowed = 0
    try:
        for _ in range(SAMPLE // len(POLICIES)):
            request = request_of(chance)
            check_proxy(policy, request, *client.ask(request))
            allowed += isinstance(verdict(policy, request), Allow)
            if (found := client.resolve(request.name)) is not None:
                check_resolver(policy, request.name, found)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        client.close()
    assert allowed or settings["allow"] == []
    with socket.create_connection((gateway.pod.gateway, gateway.pod.proxy_port), timeout=5):
        pass  # it still serves
