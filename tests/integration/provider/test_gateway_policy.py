"""GatewayPolicy over a real engine, with a container that speaks `control`'s protocol."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from abox.allowlist import parse_policy
from abox.errors import AboxError
from provider.certificate_authority import make_authority
from provider.gateway_policy import GatewayPolicyResource
from provider.host import engine
from tests.host import ROOT, wait_until

pytestmark = pytest.mark.integration

FAKE = (ROOT / "tests/integration/provider/fake_control.py").read_text()
INSTALL = (
    "printf '%s' \"$FAKE\" > /state/fake.py && "
    "printf '#!/bin/sh\\nexec python3 /state/fake.py \"$@\"\\n' > /state/abox-gateway && "
    "chmod +x /state/abox-gateway && touch /state/installed && exec sleep infinity"
)


@pytest.fixture
def control(bench):
    """A running container with the fake program, which stands before the real one on PATH."""
    lock = json.loads((ROOT / ".abox" / "images.lock.json").read_text())
    made = bench.container(
        image=lock["gateway"]["id"],
        command=["/bin/sh", "-c", INSTALL],
        environment={"FAKE": FAKE, "PATH": "/state:/usr/local/bin:/usr/bin:/bin"},
        tmpfs={"/state": "exec"},
        user="0",
    )
    wait_until(
        lambda: bench.run(made, "test", "-e", "/state/installed") == 0,
        timeout_s=10,
        describe=lambda: str(bench.engine.logs(made)),
    )
    return made


@pytest.fixture
def inputs(control):
    authority = make_authority("abxt", 365, dt.datetime.now(dt.UTC))
    return {
        "container": control,
        "sandbox": "abxt",
        "policy": parse_policy(["example.com", "*.example.org"]).to_document(),
        "gateway": "10.10.3.2",
        "proxy_port": 8080,
        "upstream_dns": ["198.51.100.53"],
        "trusted_cas": [],
        "ca_certificate": authority.certificate,
        "ca_key": authority.key,
        "secrets": {},
    }


@pytest.fixture
def resource():
    return GatewayPolicyResource(engine)


def drifted(resource, state, inputs):
    return set(resource.drift({**state, **resource.read("abxt", state)}, inputs))


def test_policy_goes_live_and_is_read_back(resource, inputs):
    resource_id, outputs = resource.create(inputs)
    state = {**inputs, **outputs}
    assert state["live_hash"] == state["policy_hash"] != ""
    assert state["live_ca"] == state["ca_fingerprint"] != ""
    assert drifted(resource, state, inputs) == set()

    changed = {**inputs, "policy": parse_policy(["example.net"]).to_document()}
    updated = resource.update(resource_id, state, changed)
    assert updated["live_hash"] == updated["policy_hash"] != state["policy_hash"]


def test_large_policy_passes_whole(resource, inputs):
    """Several times the buffer of a pipe, so that a write that isn't repeated would be seen."""
    names = [f"n{number}.example.com" for number in range(20_000)]
    policy = parse_policy(names).to_document()
    outputs = resource.create({**inputs, "policy": policy})[1]
    assert outputs["live_hash"] == outputs["policy_hash"]


@pytest.mark.parametrize(
    ("key", "field"),
    [("policy_hash", "live_hash"), ("ca_fingerprint", "live_ca"), ("trust_sha256", "live_trust")],
)
def test_anything_else_live_in_the_pod_is_drift(bench, resource, inputs, control, key, field):
    state = {**inputs, **resource.create(inputs)[1]}
    edit = f'sed -i \'s/"{key}": "/&0/\' /state/live.json'
    assert bench.run(control, "sh", "-c", edit) == 0
    assert drifted(resource, state, inputs) == {field}
    resource.update("abxt", state, inputs)
    assert drifted(resource, state, inputs) == set()


@pytest.mark.parametrize("verb", ["kill", "pause", "remove_container"])
def test_dead_control_is_drift_and_not_an_error(bench, resource, inputs, control, verb):
    state = {**inputs, **resource.create(inputs)[1]}
    options = {"force": True} if verb == "remove_container" else {}
    getattr(bench.engine, verb)(control, **options)
    assert drifted(resource, state, inputs) == {"live_hash", "live_ca", "live_trust"}


def test_refusal_comes_through_in_the_gateways_words(resource, inputs):
    refused = {**inputs, "policy": parse_policy(["refuse.test"]).to_document()}
    with pytest.raises(AboxError) as caught:
        resource.create(refused)
    assert caught.value.what == "refuse.test is refused"
    assert caught.value.remedy == "leave it"


def test_control_without_the_program_is_an_error_in_three_lines(bench, resource, inputs):
    bare = bench.container()
    with pytest.raises(AboxError) as caught:
        resource.create({**inputs, "container": bare})
    assert "abox-gateway" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3
