"""Diff: every change is seen, and forces a new resource exactly where the official one does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.recordings import ask
from toolchain.plugins.bridge.detailed_diff import path_step
from toolchain.plugins.bridge.fields import Field, Fields, Kind
from toolchain.plugins.docker import container, network, remote_image, volume
from toolchain.plugins.docker.container import UPDATED_IN_PLACE
from toolchain.plugins.docker.container_fields import CONTAINER
from toolchain.plugins.docker.provider import DockerProvider
from toolchain.plugins.wire_values import UNKNOWN_MARKER

URN = "urn:pulumi:s::p::docker:index/container:Container::c"
BASE: dict[str, Any] = {
    "__defaults": [],
    "name": "c",
    "image": "sha256:00",
    "start": True,
    "mustRun": True,
    "removeVolumes": True,
    "waitTimeout": 60,
    "restart": "no",
    "networkMode": "bridge",
    "containerReadRefreshTimeoutMilliseconds": 15000,
}

NOTED_ONLY = {
    "containerReadRefreshTimeoutMilliseconds",
    "cpuPeriod",
    "cpuQuota",
    "destroyGraceSeconds",
    "healthcheck",
    "init",
    "mustRun",  # starts a stopped container; nothing else
    "removeVolumes",
    "rm",
    "start",
    "tmpfs",
    "wait",
    "waitTimeout",
}
"""Changes that the official plugin reports as an update and doesn't pass on to the engine."""


def state(**properties: Any) -> dict[str, Any]:
    """State of a container that stands with these properties."""
    request = {"urn": URN, "name": "c", "properties": {**BASE, **properties}, "preview": True}
    planned: dict[str, Any] = ask(DockerProvider(), "Create", request)["properties"]
    return {key: value for key, value in planned.items() if value != UNKNOWN_MARKER}


def diff(olds: dict[str, Any], **news: Any) -> dict[str, Any]:
    request = {"urn": URN, "id": "1", "olds": olds, "news": {**BASE, **news}}
    return ask(DockerProvider(), "Diff", request)


def kinds(answer: dict[str, Any]) -> dict[str, str]:
    changes = answer.get("detailedDiff", {})
    return {path: change.get("kind", "ADD") for path, change in changes.items()}


def samples(field: Field) -> tuple[Any, Any]:
    """Two different values of a field."""
    if field.kind is Kind.FLAG:
        return False, True
    if field.kind is Kind.WHOLE:
        return 1, 2
    if field.kind is Kind.MAP:
        return {"a": "1"}, {"a": "2"}
    if field.fields is not None:
        first = {key: samples(part)[0] for key, part in field.fields.items() if part.settable}
        second = {key: samples(part)[1] for key, part in field.fields.items() if part.settable}
        return (first, second) if field.single else ([first], [second])
    return (["a"], ["b"]) if field.kind in (Kind.LIST, Kind.SET) else ("a", "b")


SETTABLE = [
    key
    for key, field in CONTAINER.items()
    if field.settable and field.implemented and field.offered is None
]


@pytest.mark.parametrize("key", SETTABLE)
def test_every_changed_property_is_applied_or_replaces(key: str) -> None:
    """Each input in turn: updated in place, forcing a new container, or known to be only noted."""
    first, second = samples(CONTAINER[key])
    answer = diff(state(**{key: first}), **{key: second})
    assert answer["changes"] == "DIFF_SOME"
    assert answer["diffs"] == [key]
    assert bool(answer.get("replaces")) == CONTAINER[key].replaces
    if not CONTAINER[key].replaces:
        assert (key in UPDATED_IN_PLACE) != (key in NOTED_ONLY)


@pytest.mark.parametrize("key", SETTABLE)
def test_every_property_is_unchanged_by_itself(key: str) -> None:
    """No false alarm: the same inputs give no diff."""
    value = samples(CONTAINER[key])[1]
    assert diff(state(**{key: value}), **{key: value})["changes"] == "DIFF_NONE"


def test_order_of_a_set_is_no_change() -> None:
    """The state keeps sets sorted; the program may list them in any order."""
    assert diff(state(envs=["A=1", "B=2"]), envs=["B=2", "A=1"])["changes"] == "DIFF_NONE"
    labels = [{"label": key, "value": "1"} for key in "abc"]
    answer = diff(state(labels=labels), labels=list(reversed(labels)))
    assert answer["changes"] == "DIFF_NONE"


def test_paths_of_a_set_point_into_the_inputs() -> None:
    """An element is found again where the program lists it, not where the state keeps it."""
    olds = state(labels=[{"label": "a", "value": "1"}])
    news = [{"label": "z", "value": "9"}, {"label": "a", "value": "1"}]
    assert kinds(diff(olds, labels=news)) == {"labels[0]": "ADD_REPLACE"}


def test_changed_element_that_cant_be_told_apart_shows_as_the_whole_set() -> None:
    """An attachment's absent properties are filled in by the plan, so it isn't found again."""
    olds = state(networksAdvanced=[{"name": "a"}])
    answer = diff(olds, networksAdvanced=[{"name": "b"}])
    assert kinds(answer) == {"networksAdvanced": "UPDATE_REPLACE"}
    assert answer["deleteBeforeReplace"] is True


def test_zero_values_in_a_set_count_as_absent() -> None:
    """A refresh fills them in; that is no change."""
    olds = state(networksAdvanced=[{"name": "a"}])
    olds["networksAdvanced"][0]["gwPriority"] = 0
    assert diff(olds, networksAdvanced=[{"name": "a"}])["changes"] == "DIFF_NONE"


def test_removed_property_falls_back() -> None:
    """A computed one keeps its live value, others go."""
    assert diff(state(hostname="h", command=["x"]))["changes"] == "DIFF_NONE"
    assert kinds(diff(state(memory=64))) == {"memory": "DELETE"}
    assert kinds(diff(state(dns=["10.0.0.1"]))) == {"dns": "DELETE_REPLACE"}
    assert kinds(diff(state(sysctls={"net.a": "1"}))) == {'sysctls["net.a"]': "DELETE_REPLACE"}


@pytest.mark.parametrize("key", ["user", "workingDir"])
def test_what_the_image_sets_stands(key: str) -> None:
    """The user and folder of the image are read back; a program that is silent accepts them."""
    live = state(**{key: "image's"})
    assert diff(live)["changes"] == "DIFF_NONE"
    assert diff(live, **{key: ""})["changes"] == "DIFF_NONE"
    assert kinds(diff(live, **{key: "mine"})) == {key: "UPDATE_REPLACE"}


def test_order_of_ports_is_no_change() -> None:
    """They are read back sorted."""
    ports: list[dict[str, Any]] = [
        {"internal": port, "external": port, "ip": "0.0.0.0", "protocol": "tcp"}
        for port in (80, 22)
    ]
    answer = diff(state(ports=list(reversed(ports))), ports=ports)
    assert answer["changes"] == "DIFF_NONE"


def test_mounts_that_change_in_place_are_only_noted() -> None:
    """Known weakness of the official plugin: only another number of mounts forces a new one."""
    one = {"target": "/a", "type": "volume", "source": "v"}
    changed = diff(state(mounts=[one]), mounts=[{**one, "source": "w"}])
    assert kinds(changed) == {"mounts[0].source": "UPDATE"}
    scratch = {"target": "/a", "type": "tmpfs"}  # its absent source is filled in by the plan
    changed = diff(state(mounts=[scratch]), mounts=[{**scratch, "target": "/b"}])
    assert kinds(changed) == {"mounts": "UPDATE"}
    more = diff(state(mounts=[one]), mounts=[one, {**one, "target": "/b"}])
    assert more["replaces"] == ["mounts"]


def test_list_shows_its_shortest_edit() -> None:
    """One inserted argument is one addition."""
    olds = state(command=["a", "c", "d"])
    assert kinds(diff(olds, command=["a", "b", "c", "d"])) == {"command[1]": "ADD_REPLACE"}
    assert kinds(diff(olds, command=["a", "x", "d"])) == {"command[1]": "UPDATE_REPLACE"}
    assert kinds(diff(olds, command=["a", "d"])) == {"command[1]": "DELETE_REPLACE"}


def test_unknown_input_is_a_change() -> None:
    """In preview, an id that isn't known yet forces what a changed one would."""
    answer = diff(state(networkMode="container:1"), networkMode=UNKNOWN_MARKER)
    assert kinds(answer) == {"networkMode": "UPDATE_REPLACE"}
    answer = diff(
        state(networksAdvanced=[{"name": "a"}]), networksAdvanced=[{"name": UNKNOWN_MARKER}]
    )
    assert answer["replaces"] == ["networksAdvanced"]


def test_ignored_changes_are_left_out() -> None:
    """A path that the program ignores, and all below it."""
    request = {
        "urn": URN,
        "id": "1",
        "olds": state(memory=1, logOpts={"a": "1"}),
        "news": {**BASE, "memory": 2, "logOpts": {"a": "2"}},
        "ignoreChanges": ["logOpts"],
    }
    assert kinds(ask(DockerProvider(), "Diff", request)) == {"memory": "UPDATE"}


@pytest.mark.parametrize("kind", [network.KIND, volume.KIND])
def test_old_and_new_stand_side_by_side_only_with_made_up_names(kind: Any) -> None:
    """A network or volume is replaced by create-then-delete only if its name was made up."""
    urn = f"urn:pulumi:s::p::{kind.token}::x"
    olds = {"name": "x", "driver": "local", "labels": [], "ipamDriver": "default"}
    news = {"name": "x", "driver": "other", "ipamDriver": "default"}
    for defaults, before in (([], True), (["name"], False)):
        request = {"urn": urn, "olds": olds, "news": {**news, "__defaults": defaults}}
        answer = ask(DockerProvider(), "Diff", request)
        assert answer["replaces"] == ["driver"]
        assert answer.get("deleteBeforeReplace", False) is before


def test_every_kind_of_resource_is_served() -> None:
    """Names, once more: the four types that the program uses."""
    tokens = {kind.token for kind in (container.KIND, network.KIND, volume.KIND, remote_image.KIND)}
    assert tokens == {
        "docker:index/container:Container",
        "docker:index/network:Network",
        "docker:index/volume:Volume",
        "docker:index/remoteImage:RemoteImage",
    }


@pytest.mark.parametrize(
    ("key", "step"),
    [("abc_1", ".abc_1"), ("/etc", '["/etc"]'), ("a.b", '["a.b"]'), ('a"b', '["a\\"b"]')],
)
def test_path_steps_are_quoted_where_needed(key: str, step: str) -> None:
    """As the engine parses them."""
    assert path_step(key) == step


def every_field(fields: Fields) -> list[Field]:
    return [part for field in fields.values() for part in [field, *every_field(field.fields or {})]]


def test_no_field_is_both_required_and_defaulted() -> None:
    """A required property with a default would never be missed."""
    fields = [*every_field(CONTAINER), *every_field(network.KIND.fields)]
    assert [field for field in fields if field.required and field.default is not None] == []
