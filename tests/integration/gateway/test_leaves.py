"""Leaf certificates for names that an agent makes up: bounded, and made again when asked for."""

from __future__ import annotations

import json

import pytest

from gateway.serve import HELD_LEAVES
from tests.integration.gateway.conftest import Gateway
from tests.integration.gateway.open_connections import Tunnel

pytestmark = pytest.mark.integration

BEYOND = 60
"""Names beyond the bound."""
DUMP = """
import json
from gateway.live import ENVOY
dump = json.loads(ENVOY.get("/config_dump?resource=dynamic_active_secrets"))
print(json.dumps([one["name"] for one in dump.get("configs", ())]))
"""


def held(gateway: Gateway) -> set[str]:
    """Names of the leaf certificates that Envoy has."""
    python = ("PYTHONPATH=/opt/abox/lib", "/opt/abox/venv/bin/python3")
    names = json.loads(gateway.pod.exec("control", "env", *python, "-c", DUMP).stdout)
    return {name for name in names if name.endswith(".many.wild.test")}


def test_tls_15_made_up_names_cost_the_proxy_no_more_than_so_many_certificates(gateway: Gateway):
    proxy = (gateway.pod.gateway, gateway.pod.proxy_port)
    names = [f"n{number}.many.wild.test" for number in range(HELD_LEAVES + BEYOND)]
    cert = {"names": ["*.many.wild.test"]}
    gateway.world.origin(at="198.51.100.50:443", speaks="https", cert=cert)
    gateway.world.dns.set({"*.many.wild.test": ["198.51.100.50"]})
    kept = Tunnel(proxy, names[0])
    assert kept.works()
    assert held(gateway) == {names[0]}
    for name in names[1:]:
        Tunnel(proxy, name).close()
    found = held(gateway)
    assert names[-1] in found
    assert names[0] not in found
    assert len(found) <= HELD_LEAVES
    assert kept.works()
    kept.close()
    again = Tunnel(proxy, names[0])
    assert again.works()
    again.close()
