"""States and refreshed inputs, where the recordings don't show it."""

from __future__ import annotations

from typing import Any

from toolchain.plugins.bridge.fields import LABEL, Kind, flag, mapping, objects, text, texts, whole
from toolchain.plugins.bridge.plan import plan_state, sorted_set
from toolchain.plugins.bridge.results import (
    after_apply,
    after_refresh,
    imported_inputs,
    refreshed_inputs,
    state_delta,
)
from toolchain.plugins.bridge.set_order import in_set_order
from toolchain.plugins.docker.container_fields import CONTAINER
from toolchain.plugins.wire_values import UNKNOWN

FIELDS = {
    "name": text(required=True),
    "mode": text(default="bridge"),
    "ids": texts(Kind.SET),
    "labels": objects(Kind.SET, LABEL),
    "limits": objects(Kind.SET, {"name": text(), "soft": whole()}),
    "options": mapping(),
    "tags": texts(Kind.LIST, computed=True, upstream="tag"),
    "on": flag(),
}


def test_absent_collection_stays_absent_at_creation_and_is_empty_after_a_refresh() -> None:
    """The live object shows an empty one; only the refresh takes that over."""
    planned = plan_state(FIELDS, None, {"name": "n"})
    live = {**planned, "ids": [], "options": {}, "tags": None}
    assert after_apply(FIELDS, planned, live)["ids"] is None
    assert after_apply(FIELDS, planned, live)["options"] is None
    assert after_refresh(FIELDS, live)["ids"] == []
    assert after_refresh(FIELDS, live)["options"] == {}


def test_set_keeps_its_planned_form_at_creation() -> None:
    """Docker spells a capability in another way; the state has it as written until a refresh."""
    planned = plan_state(FIELDS, None, {"name": "n", "ids": ["NET_ADMIN"]})
    live = {**planned, "ids": ["CAP_NET_ADMIN"]}
    assert after_apply(FIELDS, planned, live)["ids"] == ["NET_ADMIN"]
    assert after_refresh(FIELDS, live)["ids"] == ["CAP_NET_ADMIN"]


def test_unknown_that_nobody_resolves_is_empty() -> None:
    """A computed property that the live object lacks isn't left unknown in the state."""
    planned = plan_state(FIELDS, None, {"name": "n"})
    assert planned["tags"] is UNKNOWN
    assert after_apply(FIELDS, planned, {})["tags"] == []


def test_refreshed_inputs_take_new_values_and_no_new_keys() -> None:
    """What the program never said isn't put into its mouth; a changed default is none any more."""
    old = {"__defaults": ["mode"], "name": "n", "mode": "bridge", "ids": ["b", "a"]}
    state = {"name": "n", "mode": "host", "ids": ["a", "b"], "on": True}
    assert refreshed_inputs(FIELDS, old, state) == {
        "__defaults": [],
        "name": "n",
        "mode": "host",
        "ids": ["a", "b"],
    }


def test_objects_of_a_set_are_matched_by_likeness() -> None:
    """The state's order isn't the program's; a lost element is taken out of the inputs."""
    old = {"labels": [{"label": key, "value": "1"} for key in "cab"]}
    state = {"labels": [{"label": "a", "value": "1"}, {"label": "c", "value": "2"}]}
    assert refreshed_inputs(FIELDS, old, state)["labels"][0] == {"label": "c", "value": "2"}
    assert refreshed_inputs(FIELDS, old, state)["labels"][1] == {"label": "a", "value": "1"}
    assert len(refreshed_inputs(FIELDS, old, state)["labels"]) == 2


def test_imported_inputs_leave_out_defaults_and_zeros() -> None:
    """A resource taken over by its id is described shortly."""
    state = {"name": "n", "mode": "bridge", "ids": [], "on": False, "options": {"a": "1"}}
    inputs = {"__defaults": [], "name": "n", "options": {"a": "1", "__defaults": []}}
    assert imported_inputs(FIELDS, state) == inputs
    assert imported_inputs(FIELDS, {**state, "mode": "host"})["mode"] == "host"


def test_sets_are_sorted_by_what_their_elements_say() -> None:
    """Strings by themselves, objects by their properties in the order of the upstream names."""
    assert sorted_set(FIELDS["ids"], ["b", "a"]) == ["a", "b"]
    limits: list[Any] = [{"name": "b", "soft": 1}, {"name": "a", "soft": 2}]
    assert [item["name"] for item in sorted_set(FIELDS["limits"], limits)] == ["a", "b"]


def test_attachments_are_made_in_an_order_that_depends_on_ids() -> None:
    """So it is with the official plugin: a program must not rely on it. Checksums are fixed."""
    # crc32: c 112844655, b 1908338681, d 2564639436, a 3904355907
    assert in_set_order(FIELDS["ids"], ["a", "b", "c", "d"]) == ["c", "b", "d", "a"]
    attachments = [{"name": "a"}, {"name": "b"}]
    field = CONTAINER["networksAdvanced"]
    orders = {
        tuple(item["name"] for item in in_set_order(field, [{"name": f"{n}"}, {"name": f"x{n}"}]))
        == (f"{n}", f"x{n}")
        for n in range(20)
    }
    assert orders == {True, False}
    assert len(in_set_order(field, attachments)) == 2


def test_delta_tells_lists_from_maps_and_names_what_was_renamed() -> None:
    """What the bridge needs to get its own state back."""
    state = {"name": "n", "labels": [{"label": "a", "value": "1"}], "options": {}, "tags": ["x"]}
    assert state_delta(FIELDS, state) == {
        "obj": {
            "ps": {
                "labels": {"arr": {"el": {"0": {"obj": {}}}}},
                "options": {"map": {}},
                "tags": {"arr": {}},
            },
            "renamed": {"tags": "tag"},
        }
    }
