"""Secrets from the stack's encrypted configuration to the request, seen by nobody in between."""

from __future__ import annotations

import pytest

from tests import host
from tests.e2e.conftest import ALLOWED, SETTINGS, fetch_status

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

FIRST, SECOND = "Bearer s3cr3t-4711", "Bearer n3w-s3cr3t-0815"
KEYED = {
    "host": ALLOWED,
    "paths": ["/v1/*"],
    "inject": {"header": "Authorization", "secret": "api_key"},
}
URL = f"https://{ALLOWED}/v1/x"


def set_secret(sandbox, value, *flags):
    """What a person types; encrypted unless the flags say otherwise."""
    path = ["--path", "abox:secrets.api_key", value, "--stack", sandbox.stack.name]
    sandbox.stack.project.pulumi("config", "set", *(flags or ["--secret"]), *path)


def injected(sandbox, world):
    """The header's values at the origin."""
    world.clear_records()
    assert fetch_status(sandbox, URL) == "200"
    fields = [field for request in world.requests() for field in request["headers"]]
    return [value for name, value in fields if name.lower() == "authorization"]


def test_secret_7_a_value_is_shown_by_no_command_and_is_replaced_in_place(sandbox_up, world):
    """SECRET-7: previews, outputs, state, inspection and the agent don't show an injected value."""
    stack = sandbox_up.stack
    stack.configure(sandbox_up.full_settings({**SETTINGS, "allow": [KEYED, *SETTINGS["allow"]]}))
    told = []
    try:
        set_secret(sandbox_up, FIRST)
        told += [stack.preview("--diff"), stack.up()]
        assert injected(sandbox_up, world) == [FIRST]
        before = stack.outputs()["policy_hash"]
        assert not stack.drifted()
        set_secret(sandbox_up, SECOND)
        changed = stack.preview("--diff")
        assert "replace" not in changed.stdout
        told += [changed, stack.preview("--json"), stack.up()]
        assert injected(sandbox_up, world) == [SECOND]
        assert stack.outputs()["policy_hash"] not in ("", before)
        told += [stack.preview("--expect-no-changes"), stack.export()]
        told.append(stack.project.pulumi("stack", "output", "--json", "--stack", stack.name))
        containers = [
            *(sandbox_up.facts.container(role) for role in ("pause", "dns", "proxy", "control")),
            sandbox_up.facts.agent_container,
        ]
        told += [host.run(["docker", "inspect", *containers]), sandbox_up.exec(["env"])]
        told += [host.run(["docker", "logs", container]) for container in containers]
        folder = "/var/lib/abox/ca/secrets"
        control = sandbox_up.facts.container("control")
        spoil = f"for file in {folder}/*; do printf %s spoilt > $file; done"
        host.run(["docker", "exec", control, "sh", "-c", spoil])
        assert stack.drifted()
        told.append(stack.up())
        assert not stack.drifted()
        assert injected(sandbox_up, world) == [SECOND]
    finally:
        stack.configure(sandbox_up.full_settings(SETTINGS))
        told.append(stack.up())
    shown = "\n".join(done.stdout + done.stderr for done in told)
    assert "policy_hash" in shown  # control: there was something to be seen
    for value in (FIRST, SECOND):
        assert value.removeprefix("Bearer ") not in shown


def test_secret_8_what_could_not_be_enforced_is_refused_at_preview_all_at_once(sandbox_up):
    """SECRET-8: bad secrets and injections are told in three lines each, values left out."""
    stack = sandbox_up.stack
    wrong = {"host": ALLOWED, "inject": {"header": "Host", "secret": "missing"}}
    denied = {"host": "no.test", "inject": {"header": "X-Key", "secret": "api_key"}}
    settings = {**SETTINGS, "allow": [wrong, denied], "deny": ["no.test"]}
    try:
        set_secret(sandbox_up, "s3cr3t\nX-Other: 4711")
        stack.configure(sandbox_up.full_settings(settings))
        refused = stack.preview()
        assert refused.code not in (0, 7)
        text = refused.stdout + refused.stderr
        for place in (
            "abox:secrets.api_key",
            "allow[0].inject.header",
            "allow[0].inject.secret",
            "allow[1].inject",
        ):
            assert place in text
        assert text.count("why: ") == text.count("do: ") == 4
        assert "s3cr3t" not in text
        set_secret(sandbox_up, "s3cr3t-in-the-clear", "--plaintext")
        text = "".join([(done := stack.preview()).stdout, done.stderr])
        assert "it stands in the file in the clear" in text
        assert "s3cr3t-in-the-clear" not in text
    finally:
        set_secret(sandbox_up, FIRST)
        stack.configure(sandbox_up.full_settings(SETTINGS))
    assert not stack.drifted()
