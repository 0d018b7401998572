"""Drift in words: resource by resource, what differs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli import drift as drift_module
from cli.checkout import Checkout
from cli.drift import FOLLOWS, UNKNOWN, describe, differences, explain, in_words
from cli.main import run
from cli.pulumi_engine import Report, Step
from provider.registry import resources

URN = "urn:pulumi:dev::abox::abox:sandbox:Sandbox${type}::dev-thing"


RULE = {"rule": {"chain": "c", "expr": [{"accept": None}]}}


def step(kind: str, operation: str = "update", **more) -> Step:
    return Step(URN.format(type=kind), operation, **more)


def words(kind: str, live: dict[str, Any], operation: str = "update") -> str:
    (one,) = describe([], [step(kind, operation, old={"outputs": live})])
    return "\n".join(one.words)


def test_a_changed_table_is_told_as_a_diff():
    gone = {"rule": {"chain": "c", "expr": [{"drop": None}]}}
    before = f"{json.dumps(RULE)}\n{json.dumps(gone)}\n"
    after = json.dumps(RULE) + "\n"
    live = {"applied": before, "live": after, "findings": ["removed: rule in chain c: drop"]}
    told = words("abox:index:FirewallTable", live)
    assert "removed" not in told
    assert "--- applied" in told
    assert "-c: drop" in told


def test_a_missing_table_is_told():
    assert words("abox:index:FirewallTable", {"applied": "[]", "live": ""}) == "the table is gone"


@pytest.mark.parametrize(
    ("kind", "live", "told"),
    [
        ("ContainerPosture", {"findings": ["network x is attached"]}, "network x is attached"),
        ("NetworkPosture", {"foreign": ["stranger"]}, "foreign member: stranger"),
        (
            "BridgeFiltering",
            {"settings": {"net.bridge.bridge-nf-call-iptables": "0"}},
            "net.bridge.bridge-nf-call-iptables is 0, wanted 1",
        ),
        ("SubnetLease", {"conflicts": ["route r overlaps"]}, "route r overlaps"),
        ("ContainerGeneration", {"damage": ["no pids limit"]}, "beyond repair: no pids limit"),
        ("ContainerGeneration", {"strays": ["dev-x"]}, "left by an interrupted run: dev-x"),
        ("GatewayPolicy", {"ca_fingerprint": "a", "live_ca": ""}, "authority in the pod"),
        ("GatewayPolicy", {"trust": "a", "live_trust": "b"}, "trust store in the pod"),
        ("GatewayPolicy", {"policy_hash": "a" * 64, "live_hash": "b" * 64}, "live bbbbbbbbbbbb"),
        ("GatewayPolicy", {"policy_hash": "a" * 64, "live_hash": ""}, "live none"),
    ],
)
def test_own_resources_explain_themselves(kind, live, told):
    assert told in words(f"abox:index:{kind}", live)


@pytest.mark.parametrize("name", sorted(resources()))
def test_whatever_the_provider_reads_back_is_told(name):
    """Drift that the provider reports without words for it would be a riddle."""
    for output in resources()[name].drift_fields:
        values = [["wrong"], {"net.a": "0"}, "changed"]
        told = [explain(f"abox:index:{name}", {output: value}) for value in values]
        assert any(told), output


def test_a_gone_resource_and_one_never_made_differ():
    created = step("docker:index/container:Container", "create")
    assert describe([created], [created])[0].words == ("it is gone from this host",)
    assert "not made yet" in describe([], [created])[0].words[0]


def container(operation: str = "update", **more) -> Step:
    return step("docker:index/container:Container", operation, **more)


def test_a_property_is_told_with_both_values_and_who_changed_it():
    changed = container(
        old={"inputs": {"memory": 64}, "outputs": {"memory": 128}},
        new={"inputs": {"memory": 64}},
        changed=frozenset({"memory"}),
    )
    read = container(old={"outputs": {"memory": 64}})
    (one,) = describe([read], [changed])
    assert one.words == ("memory: is 128, wanted 64",)
    (one,) = describe([], [changed])
    assert one.words == ("memory: is 128, wanted 64 (new in the program or its settings)",)


def test_only_the_differing_parts_of_a_large_value_are_told():
    old = {"env": {"A": "1", "B": "2"}, "command": ["x", "y" * 500 + "1" + "z" * 500]}
    new = {"env": {"A": "1", "B": "3"}, "command": ["x", "y" * 500 + "2" + "z" * 500]}
    found = {path: (is_, wanted) for path, is_, wanted in differences("p", old, new)}
    assert set(found) == {"p.env.B", "p.command[1]"}
    assert found["p.env.B"] == ('"2"', '"3"')
    assert "1zz" in found["p.command[1]"][0]
    assert "2zz" in found["p.command[1]"][1]


def test_what_another_change_brings_about_is_told_on_one_line():
    follower = container(
        "create-replacement", old={"outputs": {"networkMode": "container:a"}},
        new={"inputs": {"networkMode": UNKNOWN}}, changed=frozenset({"networkMode"}),
    )  # fmt: skip
    found = describe([], [follower])
    assert found[0].words == FOLLOWS
    assert in_words("dev", found).endswith("following from that: dev-thing")


def test_a_replacement_is_one_resource_with_what_differs():
    steps = [
        container("delete-replaced", old={"outputs": {"image": "a"}}),
        container("replace", changed=frozenset({"image"})),
        container("create-replacement", new={"inputs": {"image": "b"}}),
    ]
    (one,) = describe(steps[:1], steps)
    assert one.operation == "replace"
    assert one.words == ('image: is "a", wanted "b" (new in the program or its settings)',)


def test_the_stack_itself_is_no_resource_that_drifts():
    assert (
        describe([], [Step("urn:pulumi:dev::abox::pulumi:pulumi:Stack::abox-dev", "update")]) == []
    )


@pytest.fixture
def previewed(monkeypatch: pytest.MonkeyPatch):
    def previewed(report: Report) -> None:
        monkeypatch.setattr(drift_module, "preview", lambda *_: report)

    return previewed


def test_no_drift_exits_0(checkout: Checkout, previewed, capsys):
    previewed(Report(0, [], []))
    assert run(["drift", "dev"]) == 0
    assert capsys.readouterr().out == "dev: no drift\n"


def test_drift_exits_7_and_says_what_repairs_it(checkout: Checkout, previewed, capsys):
    metadata = {
        "urn": URN.format(type="abox:index:ContainerPosture"),
        "op": "update",
        "old": {"outputs": {"findings": ["pids limit is 5\x1b[2J, wanted 1024"]}},
    }
    previewed(Report(7, [{"resourcePreEvent": {"metadata": metadata}}], []))
    assert run(["drift", "dev"]) == 7
    shown = capsys.readouterr()
    assert "dev: 1 resource drifted" in shown.out
    assert "pids limit is 5\\x1b[2J" in shown.out
    assert "pulumi up -s dev" in shown.err


def test_json_has_documented_keys(checkout: Checkout, previewed, capsys):
    metadata = {"urn": URN.format(type="abox:index:NetworkPosture"), "op": "update"}
    previewed(Report(7, [{"resourcePreEvent": {"metadata": metadata}}], []))
    assert run(["drift", "dev", "--json"]) == 7
    document = json.loads(capsys.readouterr().out)
    assert document["drifted"] is True
    assert set(document["resources"][0]) == {"urn", "type", "name", "operation", "words"}


def test_an_unknown_stack_exits_2(checkout: Checkout, capsys):
    assert run(["drift", "nope"]) == 2
    assert "known stacks: dev" in capsys.readouterr().err
