"""The pack as the engine runs it: started as a process, asked over gRPC."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from policy.rules import collect_rules
from tests import host
from tests.policy.examples.declare import container

pytestmark = pytest.mark.integration

ADVISORY = {"no-secret-on-wildcard", "vm-template-reviewed"}
"""Rules that warn; all others refuse."""


@pytest.fixture
def pack() -> Iterator[analyzer_pb2_grpc.AnalyzerStub]:
    process = host.spawn([sys.executable, str(host.ROOT / "policy")])
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield analyzer_pb2_grpc.AnalyzerStub(channel)
    finally:
        process.kill()
        host.end(process)


def test_the_pack_serves_every_rule_at_its_level(pack: analyzer_pb2_grpc.AnalyzerStub) -> None:
    info = pack.GetAnalyzerInfo(empty_pb2.Empty())
    assert info.name == "abox"
    assert [rule.name for rule in info.policies] == [rule.name for rule in collect_rules()]
    mandatory = {r.name for r in info.policies if r.enforcementLevel == analyzer_pb2.MANDATORY}
    assert {rule.name for rule in info.policies} - mandatory == ADVISORY


@pytest.mark.parametrize(
    ("changed", "violated"),
    [
        ({}, set()),
        ({"image": "agent:latest"}, {"image-pinned-by-digest"}),
        ({"ports": [{"internal": 80, "external": 8080}]}, {"no-published-ports"}),
    ],
    ids=str,
)
def test_a_resource_is_judged_over_the_wire(
    pack: analyzer_pb2_grpc.AnalyzerStub, changed: dict[str, Any], violated: set[str]
) -> None:
    kind, props = container(**changed)
    properties = struct_pb2.Struct()
    properties.update(props)
    request = analyzer_pb2.AnalyzeRequest(
        type=kind,
        properties=properties,
        urn="urn:pulumi:abxt::abox::docker:index/container:Container::agent",
        name="agent",
        options=analyzer_pb2.AnalyzerResourceOptions(),
    )
    found = pack.Analyze(request).diagnostics
    assert {diagnostic.policyName for diagnostic in found} == violated
    assert all(d.enforcementLevel == analyzer_pb2.MANDATORY for d in found)
