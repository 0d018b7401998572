"""Check fills in what is left out and says everything that is wrong, by the property's name."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.recordings import CallFailedError, ask
from toolchain.plugins.bridge.check import Naming, check_inputs
from toolchain.plugins.docker.container_fields import CONTAINER
from toolchain.plugins.docker.provider import DockerProvider
from toolchain.plugins.wire_values import UNKNOWN

NAMING = Naming(resource="box", seed=b"seed")
MINIMAL = {"image": "sha256:00"}


def failures(news: dict[str, Any], naming: Naming = NAMING) -> dict[str, str]:
    _, found = check_inputs(CONTAINER, news, {}, naming)
    return {failure.property: failure.reason for failure in found}


def inputs(news: dict[str, Any], olds: dict[str, Any] | None = None) -> dict[str, Any]:
    checked, found = check_inputs(CONTAINER, news, olds or {}, NAMING)
    assert found == []
    return checked


def test_minimal_container_is_named_and_has_defaults() -> None:
    """The name is the resource's with seven digits; defaults are listed, empty ones aren't set."""
    checked = inputs(MINIMAL)
    assert re.fullmatch(r"box-[0-9a-f]{7}", checked["name"])
    assert checked["__defaults"] == [
        "containerReadRefreshTimeoutMilliseconds",
        "mustRun",
        "name",
        "networkMode",
        "removeVolumes",
        "restart",
        "start",
        "waitTimeout",
    ]
    assert "readOnly" not in checked  # its default, false, is as good as absent


def test_made_up_name_stays() -> None:
    """Another run, with another seed, keeps the name."""
    first = inputs(MINIMAL)
    checked, found = check_inputs(
        CONTAINER, MINIMAL, first, Naming(resource="box", seed=b"another")
    )
    assert found == []
    assert checked["name"] == first["name"]


def test_name_given_up_is_made_up() -> None:
    """A name that the program gave and gives no more isn't taken for a made-up one."""
    first = inputs({**MINIMAL, "name": "mine"})
    assert inputs(MINIMAL, first)["name"].startswith("box-")


def test_names_differ_by_seed() -> None:
    """Two resources of one name in two stacks don't collide."""
    assert NAMING.make() != Naming(resource="box", seed=b"other").make()


def test_engine_proposes_the_name() -> None:
    """A stack's autonaming configuration decides."""
    request = {
        "urn": "urn:pulumi:s::p::docker:index/container:Container::box",
        "name": "box",
        "news": MINIMAL,
        "autonaming": {"proposedName": "s-box", "mode": "ENFORCE"},
    }
    answer = ask(DockerProvider(), "Check", request)
    assert answer["inputs"]["name"] == "s-box"
    request["autonaming"] = {"mode": "DISABLE"}
    (failure,) = ask(DockerProvider(), "Check", request)["failures"]
    assert failure["property"] == "name"
    assert "automatic naming is disabled" in failure["reason"]


def test_all_failures_come_at_once_by_name() -> None:
    """One run names every wrong property, the nested ones with their path."""
    found = failures(
        {
            "cmmand": ["x"],
            "gpus": "all",
            "memory": -1,
            "restart": "sometimes",
            "exitCode": 1,
            "attach": True,
            "networksAdvanced": [{"name": "n"}, {"ip": "10.0.0.1"}],
            "ulimits": "nofile",
            "healthcheck": {"interval": "soon"},
            "readOnly": "perhaps",
        }
    )
    assert found.keys() == {
        "cmmand",
        "gpus",
        "memory",
        "restart",
        "exitCode",
        "attach",
        "networksAdvanced[1].ip",
        "networksAdvanced[1].name",
        "ulimits",
        "healthcheck.interval",
        "readOnly",
        "image",
    }
    assert "is not implemented" in found["gpus"]
    assert "is no property that can be set here" in found["exitCode"]
    assert "missing required property" in found["image"]
    assert "'attach'" in found["attach"]


def test_unimplemented_properties_are_refused_by_name() -> None:
    """Every property that the stand-in knows of and doesn't implement."""
    refused = {key for key, field in CONTAINER.items() if not field.implemented}
    assert refused == {"gpus", "deviceRequests"}
    for key in refused:
        value: Any = "all" if key == "gpus" else [{"driver": "cdi"}]
        assert key in failures({**MINIMAL, key: value})


def test_wrong_type_is_told_without_the_value() -> None:
    """A value may be a secret, so a message about its type never quotes it."""
    found = failures({**MINIMAL, "memory": "s3cr3t", "envs": {"s3cr3t": 1}})
    assert found.keys() == {"memory", "envs"}
    assert "s3cr3t" not in str(found)


def test_unknown_values_pass() -> None:
    """What isn't known yet, whole or in part, is checked later."""
    news = {"image": UNKNOWN, "memory": UNKNOWN, "envs": [UNKNOWN], "logOpts": {"a": UNKNOWN}}
    checked = inputs({**news, "networksAdvanced": [UNKNOWN, {"name": UNKNOWN}]})
    assert checked["memory"] is UNKNOWN
    assert checked["networksAdvanced"][0] is UNKNOWN


@pytest.mark.parametrize(
    ("key", "given", "checked"),
    [
        ("memory", "64", 64),
        ("readOnly", "true", True),
        ("user", 1000, "1000"),
        ("logOpts", {"compress": False}, {"compress": False}),
        ("envs", ["A=1", "A=1"], ["A=1", "A=1"]),
    ],
)
def test_scalars_are_converted(key: str, given: Any, checked: Any) -> None:
    """A number may be written as a string, and so on, as the bridge allows it."""
    assert inputs({**MINIMAL, key: given})[key] == checked


def test_unknown_resource_type_is_an_error() -> None:
    """A type outside the four is refused by name."""
    request = {"urn": "urn:pulumi:s::p::docker:index/service:Service::x", "news": {}}
    for call in ("Check", "Diff", "Create", "Read", "Update", "Delete"):
        with pytest.raises(CallFailedError, match="unrecognized resource type"):
            ask(DockerProvider(), call, request)


def test_type_is_what_follows_the_last_parent() -> None:
    """Inside a component the URN holds the parent's type too."""
    urn = "urn:pulumi:s::p::abox:a:Pod$docker:index/volume:Volume::v"
    answer = ask(DockerProvider(), "Check", {"urn": urn, "name": "v", "news": {}})
    assert answer["inputs"]["name"].startswith("v-")
