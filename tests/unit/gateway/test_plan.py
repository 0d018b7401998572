"""An apply document is judged in full before anything is touched."""

from __future__ import annotations

import json

import pytest

from abox.allowlist import parse_policy
from abox.errors import AboxError
from gateway.plan import Plan, parse_plan
from tests.integration.gateway.authority import make_authority

CERTIFICATE, KEY = make_authority()


INJECTING = parse_policy(
    [{"host": "allowed.test", "inject": {"header": "Authorization", "secret": "api_key"}}]
).to_document()


def document(**changes):
    return {
        "sandbox": "dev",
        "policy": parse_policy(["allowed.test"]).to_document(),
        "network": {"gateway": "10.10.1.2", "proxy_port": 8080, "upstream_dns": ["198.51.100.53"]},
        "ca": {"certificate": CERTIFICATE, "key": KEY},
        "trusted_cas": [CERTIFICATE],
        "secrets": {},
        **changes,
    }


def test_a_document_is_read():
    plan = parse_plan(json.dumps(document()))
    assert plan.policy_hash == parse_policy(["allowed.test"]).hash
    assert plan.upstream_dns == ("198.51.100.53",)
    assert len(plan.trusted_cas) == 1


REFUSED = {
    "no-json": "{",
    "list": "[]",
    "key-missing": json.dumps({k: v for k, v in document().items() if k != "ca"}),
    "key-unknown": json.dumps(document(more=1)),
    "policy": json.dumps(document(policy={"allow": ["*"]})),
    "resolver": json.dumps(
        document(network={"gateway": "10.10.1.2", "proxy_port": 1, "upstream_dns": ["x\ny: z"]})
    ),
    "foreign-key": json.dumps(
        document(ca={"certificate": CERTIFICATE, "key": make_authority()[1]})
    ),
    "secret-missing": json.dumps(document(policy=INJECTING)),
    "secret-unused": json.dumps(document(secrets={"api_key": "PRIVATE"})),
    "secret-no-header": json.dumps(document(policy=INJECTING, secrets={"api_key": "PRIVATE\n"})),
    "no-certificate": json.dumps(document(trusted_cas=["-----BEGIN"])),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_document_that_is_refused_says_what_why_and_what_to_do(text):
    with pytest.raises(AboxError) as caught:
        parse_plan(text)
    assert all((caught.value.what, caught.value.why, caught.value.remedy))
    assert "PRIVATE" not in str(caught.value)


def test_the_record_holds_everything_but_the_key():
    plan = parse_plan(json.dumps(document()))
    record = plan.to_record()
    assert "PRIVATE" not in json.dumps(record)
    again = Plan.from_record(json.loads(json.dumps(record)))
    assert again.files() == plan.files()


def keyed(value):
    return parse_plan(json.dumps(document(policy=INJECTING, secrets={"api_key": value})))


def test_a_value_stands_in_no_file_of_the_policy_and_names_its_cluster():
    first, second = keyed("s3cr3t"), keyed("0ther")
    for plan, value in ((first, "s3cr3t"), (second, "0ther")):
        assert list(plan.values().values()) == [value]
        for text in (*plan.files().values(), repr(plan), json.dumps(plan.to_record())):
            assert value not in text
    for name in ("clusters", "routes-inner"):
        path = f"/var/lib/abox/policy/{name}.json"
        assert first.files()[path] != second.files()[path]
    assert set(first.values()) != set(second.values())
    assert first.policy_hash != second.policy_hash


def test_a_record_tells_the_hash_and_the_clusters_without_the_values():
    plan = keyed("s3cr3t")
    again = Plan.from_record(json.loads(json.dumps(plan.to_record())))
    assert again.policy_hash == plan.policy_hash != parse_policy(["allowed.test"]).hash
    assert again.clusters() == plan.clusters() != []
    assert not again.values()


def test_the_first_plan_denies_everything():
    files = Plan(policy=None).files()
    assert '"allow":[]' in files["/var/lib/abox/policy/names.json"]
    assert "origin_plain" not in files["/var/lib/abox/policy/routes-outer.json"]
