"""GatewayPolicy: what the pod says is believed only when it is whole."""

from __future__ import annotations

import json

import pytest

from abox.allowlist import parse_policy
from abox.errors import AboxError, HostError
from provider import gateway_policy
from provider.engine import ExecResult
from provider.gateway_policy import Gateway, GatewayPolicyResource, Live
from provider.resource import UNKNOWN
from tests.unit.provider.samples import (
    FIRST_CA,
    SECOND_CA,
    FakeEngine,
    container_inspection,
)
from tests.unit.provider.samples import (
    gateway_policy as sample_of,
)

HASHES = {"policy_hash": "a", "ca_fingerprint": "b", "trust_sha256": "c"}


def gateway(*, stdout=b"", exit_code=0, stderr=b"", state=None):
    inspection = container_inspection("control")
    inspection["State"] |= state or {}

    def answer(command, stdin):
        return ExecResult(exit_code, stdout, stderr)

    return Gateway("control", FakeEngine(containers_by_id={"control": inspection}, answer=answer))


def test_status_is_what_the_pod_says():
    assert gateway(stdout=json.dumps(HASHES).encode()).status() == Live(**HASHES)


@pytest.mark.parametrize(
    "dead",
    [
        gateway(state={"Running": False}),
        gateway(state={"Paused": True}),
        gateway(state={"Restarting": True}),
        gateway(stdout=b""),
        gateway(stdout=b"Traceback"),
        gateway(stdout=b"[]"),
        gateway(stdout=b'{"policy_hash": null, "ca_fingerprint": 3}'),
        Gateway("gone", FakeEngine()),
    ],
    ids=["stopped", "paused", "restarting", "silent", "crashed", "list", "wrong kinds", "gone"],
)
def test_dead_pod_has_nothing_live(dead):
    assert dead.status() == Live()


def test_a_push_gives_what_the_pod_says_is_live_then():
    said = json.dumps({"ok": True, **HASHES}).encode()
    assert gateway(stdout=said).apply({}) == Live(**HASHES)


@pytest.mark.parametrize("live", [{}, HASHES, {**HASHES, "policy_hash": None}])
def test_something_else_live_after_apply_is_an_error(tmp_path, live):
    sample = sample_of(tmp_path)
    other = gateway(stdout=json.dumps({"ok": True, **live}).encode())
    with pytest.raises(HostError, match="something else is live"):
        GatewayPolicyResource(other.engine).create({**sample.inputs, "container": "control"})


def test_no_engine_is_an_error_and_not_a_dead_pod():
    refusal = HostError(what="no Docker engine answers", why="refused", remedy="start dockerd")
    with pytest.raises(HostError, match="Docker"):
        Gateway("control", FakeEngine(refusal=refusal)).status()


def test_refusal_of_the_pod_is_passed_on_in_its_words():
    error = {"what": "entry 3 is refused", "why": "because", "remedy": "write it otherwise"}
    stdout = json.dumps({"ok": False, "error": error}).encode()
    with pytest.raises(AboxError) as caught:
        gateway(stdout=stdout, exit_code=2).apply({})
    assert caught.value.to_document() == error


@pytest.mark.parametrize("answer", [{}, {"ok": False}, {"ok": 1}, {"ok": "true"}])
def test_answer_without_a_clear_yes_is_a_no(answer):
    with pytest.raises(AboxError):
        gateway(stdout=json.dumps(answer).encode()).apply({})


def test_crash_of_the_pod_shows_its_last_line():
    crashed = gateway(stdout=b"", stderr=b"Traceback\nMemoryError: no memory\n", exit_code=1)
    with pytest.raises(HostError, match="MemoryError: no memory"):
        crashed.apply({})


def test_control_that_does_not_start_is_an_error(monkeypatch):
    monkeypatch.setattr(gateway_policy, "START_TIMEOUT_S", 0)
    with pytest.raises(HostError, match="doesn't run"):
        gateway(state={"Running": False}).apply({})


def test_key_goes_to_standard_input_and_not_on_a_command_line(tmp_path):
    sample = sample_of(tmp_path)
    sample.resource.create(sample.inputs)
    calls = [call for call in sample.trace if isinstance(call[1], list)]
    body = next(stdin for _, command, stdin, _ in calls if command[-1] == "apply")
    assert json.loads(body)["ca"]["key"] == FIRST_CA.key
    assert "PRIVATE" not in str([command for _, command, _, _ in calls])


def test_preview_shows_the_hash_of_a_known_policy(tmp_path):
    sample = sample_of(tmp_path)
    _, state = sample.resource.create(sample.inputs)
    planned = sample.resource.planned(sample.inputs, None)
    assert planned["policy_hash"] == state["policy_hash"]
    changed = {**sample.inputs, "ca_certificate": SECOND_CA.certificate}
    assert (
        sample.resource.planned(changed, {**sample.inputs, **state})["live_ca"] != state["live_ca"]
    )


def test_document_that_is_no_policy_is_refused_at_check(tmp_path):
    sample = sample_of(tmp_path)
    broken = {**sample.inputs, "policy": {"allow": ["*"]}}
    (failure,) = sample.resource.problems(broken, {})
    assert failure.name == "policy"


def injecting(sample, **values):
    inject = {"header": "Authorization", "secret": "api_key"}
    policy = parse_policy([{"host": "example.com", "inject": inject}])
    return {**sample.inputs, "policy": policy.to_document(), "secrets": values}


def test_another_value_is_another_hash_that_preview_knows(tmp_path):
    sample = sample_of(tmp_path)
    first, second = (injecting(sample, api_key=value) for value in ("s3cr3t", "0ther"))
    _, state = sample.resource.create(first)
    assert sample.resource.planned(first, None)["policy_hash"] == state["policy_hash"]
    planned = sample.resource.planned(second, {**first, **state})
    assert planned["policy_hash"] not in (UNKNOWN, state["policy_hash"])
    assert (
        sample.resource.update("p", {**first, **state}, second)["live_hash"]
        == (planned["policy_hash"])
    )
    bare = parse_policy(["example.com"]).hash
    assert bare not in (state["policy_hash"], planned["policy_hash"])


def test_the_hash_of_values_waits_for_the_authority_that_keys_it(tmp_path):
    sample = sample_of(tmp_path)
    inputs = {**injecting(sample, api_key="s3cr3t"), "ca_key": UNKNOWN}
    assert sample.resource.planned(inputs, None)["policy_hash"] == UNKNOWN
    assert sample.resource.planned({**sample.inputs, "ca_key": UNKNOWN}, None)["policy_hash"] != (
        UNKNOWN
    )


@pytest.mark.parametrize("values", [{}, {"other": "s3cr3t"}, {"api_key": "a", "other": "s3cr3t"}])
def test_values_that_the_policy_does_not_inject_are_refused_at_check(tmp_path, values):
    sample = sample_of(tmp_path)
    (failure,) = sample.resource.problems(injecting(sample, **values), {})
    assert failure.name == "secrets"
    assert "s3cr3t" not in failure.reason
    assert not list(sample.resource.problems(injecting(sample, api_key="s3cr3t"), {}))
