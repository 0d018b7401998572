"""What every resource owes the engine, for all resource types there are."""

from __future__ import annotations

import dataclasses
import inspect
import json

import pytest
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import (
    CheckRequest,
    CreateRequest,
    DeleteRequest,
    DiffRequest,
    ReadRequest,
    UpdateRequest,
)

import components.host
from abox.errors import AboxError
from provider.posture import Expected
from provider.registry import resources
from provider.resource import UNKNOWN, is_unknown
from provider.server import AboxProvider
from provider.values import plain, plain_map, wrapped
from tests.unit.provider.samples import SAMPLES, finished

TYPES = sorted(SAMPLES)
INPUTS = [(name, field.name) for name, kind in sorted(resources().items()) for field in kind.fields]
DRIFTS = [(name, each) for name, kind in sorted(resources().items()) for each in kind.drift_fields]


def urn(name):
    """A resource inside two components, where the dispatcher sees more than its own token."""
    return f"urn:pulumi:s::p::abox:a:A$abox:b:B$abox:index:{name}::x"


def wire(data):
    return {name: wrapped(value) for name, value in data.items()}


@pytest.fixture
def sample(request, tmp_path):
    return SAMPLES[request.param](tmp_path)


def provider_of(sample):
    return AboxProvider(lambda: {sample.resource.type_name: sample.resource})


def diff(sample, state, inputs):
    request = DiffRequest(urn(sample.resource.type_name), "id", wire(state), wire(inputs), [])
    return finished(provider_of(sample).diff(request))


def created(sample):
    resource_id, outputs = sample.resource.create(sample.inputs)
    return resource_id, {**sample.inputs, **outputs}


def test_every_resource_has_a_sample_and_a_class_for_the_program():
    assert sorted(resources()) == TYPES
    for name in TYPES:
        assert inspect.isclass(getattr(components.host, name)), name


@pytest.mark.parametrize("name", TYPES)
def test_class_of_the_program_gives_exactly_the_inputs(name):
    parameters = set(inspect.signature(getattr(components.host, name)).parameters)
    assert parameters - {"name", "opts"} == {f.name for f in resources()[name].fields}


@pytest.mark.parametrize("sample", TYPES, indirect=True)
def test_class_of_the_program_declares_every_output(sample):
    _, state = created(sample)
    line = inspect.getmro(getattr(components.host, sample.resource.type_name))
    ours = [one for one in line if one.__module__ == components.host.__name__]
    declared = {key: text for one in ours for key, text in inspect.get_annotations(one).items()}
    outputs = {key for key, text in declared.items() if text.startswith("Output")}
    assert state.keys() - sample.inputs.keys() <= outputs <= state.keys()


def test_expected_container_has_the_fields_that_the_posture_compares():
    asked = {field.name for field in dataclasses.fields(components.host.ExpectedContainer)}
    assert asked == {field.name for field in dataclasses.fields(Expected)}


def test_defaults_of_program_and_posture_agree():
    asked = components.host.ExpectedContainer(image="sha256:1").as_inputs()
    assert Expected.parse(json.loads(json.dumps(asked))) == Expected(image="sha256:1")


@pytest.mark.parametrize("sample", TYPES, indirect=True)
def test_every_method_reaches_a_nested_resource(sample):
    provider, name = provider_of(sample), sample.resource.type_name
    inputs = wire(sample.inputs)

    checked = finished(provider.check(CheckRequest(urn(name), {}, inputs, b"")))
    assert not checked.failures
    assert plain_map(checked.inputs) == sample.inputs

    made = finished(provider.create(CreateRequest(urn(name), inputs, 0, preview=False)))
    assert made.resource_id

    unchanged = DiffRequest(urn(name), made.resource_id, made.properties, inputs, [])
    assert finished(provider.diff(unchanged)).changes is False

    refresh = ReadRequest(urn(name), made.resource_id, made.properties, inputs)
    read = finished(provider.read(refresh))
    assert read.resource_id == made.resource_id
    assert read.inputs == inputs  # an empty map would wipe the stored ones
    assert plain_map(read.properties) == plain_map(made.properties)

    repair = UpdateRequest(
        urn(name), made.resource_id, made.properties, inputs, 0, [], preview=False
    )
    updated = finished(provider.update(repair))
    assert updated.properties.keys() == made.properties.keys()

    removal = DeleteRequest(urn(name), made.resource_id, made.properties, 0)
    finished(provider.delete(removal))
    finished(provider.delete(removal))  # gone already: no error


def test_unknown_resource_type_is_refused():
    for token in ("abox:index:Nonsense", "docker:index:SubnetLease"):
        request = CheckRequest(f"urn:pulumi:s::p::{token}::x", {}, {}, b"")
        with pytest.raises(AboxError, match="is unknown"):
            finished(AboxProvider(resources).check(request))


@pytest.mark.parametrize(("sample", "field"), INPUTS, indirect=["sample"])
def test_changed_input_is_applied_by_update_or_named_for_replacement(sample, field):
    resource_id, state = created(sample)
    assert sample.changed[field] != sample.inputs[field]
    new = {**sample.inputs, field: sample.changed[field]}
    seen = diff(sample, state, new)
    assert seen.changes
    assert seen.diffs == [field]
    if field in seen.replaces:
        return

    def trace_of(inputs):
        sample.trace.clear()
        try:
            sample.resource.update(resource_id, state, inputs)
        except AboxError as error:  # refused by the host is applied as well
            sample.trace.append(str(error))
        return str(sample.trace)

    assert trace_of(new) != trace_of(sample.inputs)


@pytest.mark.parametrize(("sample", "field"), DRIFTS, indirect=["sample"])
def test_drift_makes_diff_report_a_change(sample, field):
    _, state = created(sample)
    assert diff(sample, state, sample.inputs).changes is False
    assert sample.drifted[field] != state[field]
    assert diff(sample, {**state, field: sample.drifted[field]}, sample.inputs).changes is True


@pytest.mark.parametrize("sample", TYPES, indirect=True)
def test_no_drift_sample_is_left_over(sample):
    assert sample.drifted.keys() == set(sample.resource.drift_fields)


@pytest.mark.parametrize("sample", TYPES, indirect=True)
def test_preview_of_create_gives_no_id_and_touches_nothing(sample, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    sample.trace.clear()
    request = CreateRequest(urn(sample.resource.type_name), wire(sample.inputs), 0, preview=True)
    planned = finished(provider_of(sample).create(request))
    assert not planned.resource_id
    assert sample.trace == []
    assert sorted(tmp_path.rglob("*")) == before
    _, state = created(sample)
    assert planned.properties.keys() == state.keys()


@pytest.mark.parametrize("sample", TYPES, indirect=True)
def test_what_preview_promises_comes_true(sample):
    planned = sample.resource.planned(sample.inputs, None)
    resource_id, state = created(sample)
    repaired = sample.resource.planned(sample.inputs, state)
    updated = {**state, **sample.resource.update(resource_id, state, sample.inputs)}
    for promised, result in ((planned, state), (repaired, updated)):
        known = {key: value for key, value in promised.items() if not is_unknown(value)}
        assert known == {key: result[key] for key in known}


@pytest.mark.parametrize("sample", TYPES, indirect=True)
def test_preview_takes_unknown_inputs(sample):
    name = sample.resource.type_name
    if not sample.inputs or "role" in sample.inputs or name == "SubnetLease":
        unknown = dict(sample.inputs)  # their inputs are text of the program
        unknown.update({"container": UNKNOWN} if "container" in unknown else {})
    else:
        unknown = dict.fromkeys(sample.inputs, UNKNOWN)
    provider = provider_of(sample)
    checked = finished(provider.check(CheckRequest(urn(name), {}, wire(unknown), b"")))
    assert not checked.failures
    request = CreateRequest(urn(name), wire(unknown), 0, preview=True)
    assert finished(provider.create(request)).properties


@pytest.mark.parametrize("sample", TYPES, indirect=True)
def test_check_names_every_failure_at_once(sample):
    name = sample.resource.type_name
    bad = {"nonsense": PropertyValue("x")}
    failures = finished(provider_of(sample).check(CheckRequest(urn(name), {}, bad, b""))).failures
    required = {field.name for field in sample.resource.fields if field.required}
    assert {failure.property for failure in failures} == required | {"nonsense"}


@pytest.mark.parametrize(("sample", "field"), INPUTS, indirect=["sample"])
def test_check_refuses_an_input_of_the_wrong_kind(sample, field):
    name = sample.resource.type_name
    wrong = 1.5 if not isinstance(sample.inputs[field], float) else "x"
    inputs = wire({**sample.inputs, field: wrong})
    failures = finished(
        provider_of(sample).check(CheckRequest(urn(name), {}, inputs, b""))
    ).failures
    assert [failure.property for failure in failures] == [field]


@pytest.mark.parametrize("sample", TYPES, indirect=True)
def test_secrets_stay_secret_in_every_answer(sample):
    name, provider = sample.resource.type_name, provider_of(sample)
    secret = {field.name for field in sample.resource.fields if field.secret}
    inputs = {key: wrapped(value, secret=key in secret) for key, value in sample.inputs.items()}
    made = finished(provider.create(CreateRequest(urn(name), inputs, 0, preview=False)))
    read = finished(
        provider.read(ReadRequest(urn(name), made.resource_id, made.properties, inputs))
    )
    kept = secret | sample.resource.secret_outputs
    for answer in (made.properties, read.properties):
        assert {key for key, value in answer.items() if value.is_secret} == kept


def test_private_keys_and_injected_values_are_secret():
    """Whoever adds a field with a key in it has to mark it."""
    for resource in resources().values():
        names = {field.name for field in resource.fields}
        # What a guest is told holds its private host key.
        told = {"user_data", "boot_script"}
        keys = {n for n in names if n.endswith(("key", "secrets")) or n in told}
        assert keys == {field.name for field in resource.fields if field.secret}
    assert "key" in resources()["CertificateAuthority"].secret_outputs
    assert "private_key" in resources()["SshKey"].secret_outputs


@pytest.mark.parametrize(
    "data", [0, 1, -3, 1.5, True, "", "x", None, [], {}, [1, {"a": [None, False]}]]
)
def test_plain_data_survives_the_wire(data):
    assert plain(PropertyValue.unmarshal(wrapped(data).marshal())) == data
