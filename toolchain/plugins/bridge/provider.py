"""The ResourceProvider service for resources of a bridged provider."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from toolchain.plugins.bridge.check import Failure, Naming, check_inputs
from toolchain.plugins.bridge.detailed_diff import Change, Changes, detailed_diff
from toolchain.plugins.bridge.fields import DEFAULTS_KEY
from toolchain.plugins.bridge.plan import needs_replacement, plan_state, prior_state
from toolchain.plugins.bridge.resource import HalfMadeError, Resource, ResourceError, ResourceKind
from toolchain.plugins.bridge.results import (
    DELTA_KEY,
    after_apply,
    after_refresh,
    imported_inputs,
    meta,
    refreshed_inputs,
    state_delta,
)
from toolchain.plugins.bridge.traits import CURRENT, Traits
from toolchain.plugins.server import PartlyMadeError, PluginError, answered
from toolchain.plugins.wire_values import (
    UNKNOWN,
    Properties,
    Value,
    from_struct,
    holds_unknown,
    to_struct,
)

META_KEY: Final = "__meta"
ID_KEY: Final = "id"


class BridgedProvider(provider_pb2_grpc.ResourceProviderServicer, ABC):
    """Serves a set of resource kinds; a subclass knows the configuration and the resources.

    Secrets never get here: like the official bridge it doesn't accept them, so the engine
    unwraps them before a call and marks the outputs of the same name afterwards.
    """

    def __init__(
        self,
        package: str,
        version: str,
        kinds: Sequence[ResourceKind],
        traits: Traits = CURRENT,
    ) -> None:
        self._package = package
        self._version = version
        self._traits = traits
        self._kinds = {kind.token: kind for kind in kinds}

    @abstractmethod
    def check_configuration(self, news: Mapping[str, Value]) -> list[Failure]:
        """What is wrong with the provider's configuration."""

    @abstractmethod
    def configure(self, arguments: Mapping[str, Value]) -> None:
        """Take the configuration in."""

    @abstractmethod
    def resource(self, kind: ResourceKind) -> Resource:
        """The resource at work, on the configured endpoint.

        Raises:
            ResourceError: the endpoint doesn't answer.
        """

    def _kind(self, urn: str, call: str) -> ResourceKind:
        token = urn.split("::")[2].split("$")[-1]
        kind = self._kinds.get(token)
        if kind is None:
            known = ", ".join(sorted(self._kinds))
            raise PluginError(f"unrecognized resource type ({call}): {token}; known are {known}")
        return kind

    # The protocol's own calls.

    @answered
    def GetPluginInfo(self, _request: Any) -> Any:
        """Version of the plugin."""
        return plugin_pb2.PluginInfo(version=self._version)

    @answered
    def GetSchema(self, _request: Any) -> Any:
        """Name and version only: the SDK is generated from the official schema."""
        schema = f'{{"name": "{self._package}", "version": "{self._version}"}}'
        return provider_pb2.GetSchemaResponse(schema=schema)

    @answered
    def Cancel(self, _request: Any) -> Any:
        """Nothing to cancel: every call is short."""
        return empty_pb2.Empty()

    @answered
    def CheckConfig(self, request: Any) -> Any:
        """The configuration as it is, or all that is wrong with it."""
        failures = self.check_configuration(from_struct(request.news))
        if failures:
            return provider_pb2.CheckResponse(failures=_failures(failures))
        return provider_pb2.CheckResponse(inputs=request.news)

    @answered
    def DiffConfig(self, request: Any) -> Any:
        """Changed keys; none of them makes a new provider."""
        olds, news = from_struct(request.old_inputs), from_struct(request.news)
        changed = {key for key in olds.keys() | news.keys() if olds.get(key) != news.get(key)}
        if not changed:
            return provider_pb2.DiffResponse()
        changes = {key: _presence_change(key in olds, key in news) for key in sorted(changed)}
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME,
            diffs=sorted(changed),
            detailedDiff=_property_diffs(changes),
            hasDetailedDiff=True,
        )

    @answered
    def Configure(self, request: Any) -> Any:
        """Take the configuration in."""
        self.configure(from_struct(request.args))
        return provider_pb2.ConfigureResponse(
            supportsPreview=True, supports_autonaming_configuration=True
        )

    # Resources.

    @answered
    def Check(self, request: Any) -> Any:
        """Checked inputs and all failures."""
        kind = self._kind(request.urn, "Check")
        inputs, failures = check_inputs(
            kind.fields,
            from_struct(request.news),
            from_struct(request.olds),
            _naming(request),
            empty_defaults=self._traits.empty_defaults,
        )
        return provider_pb2.CheckResponse(inputs=to_struct(inputs), failures=_failures(failures))

    @answered
    def Diff(self, request: Any) -> Any:
        """What changes, and whether in place."""
        kind = self._kind(request.urn, "Diff")
        olds, news = from_struct(request.olds), from_struct(request.news)
        prior = prior_state(kind.fields, olds)
        planned = plan_state(kind.fields, olds, news)
        replace = needs_replacement(kind.fields, prior, planned)
        changes = detailed_diff(
            kind.fields, prior, planned, news, replace=replace, flat=self._traits.flat_diff
        )
        changes = _without_ignored(changes, request.ignoreChanges)
        return _diff_response(kind, changes, news, changed=planned != prior)

    @answered
    def Create(self, request: Any) -> Any:
        """Make a resource and read it back, or say what it would be."""
        kind = self._kind(request.urn, "Create")
        planned = plan_state(kind.fields, None, from_struct(request.properties))
        if request.preview:
            note = meta(timeouts=kind.timeouts, schema_version=kind.schema_version, preview=True)
            preview: Properties = {**planned, ID_KEY: UNKNOWN}
            if note is not None:
                preview[META_KEY] = note
            return provider_pb2.CreateResponse(properties=to_struct(preview))
        identity, live = self._create(kind, request.urn, planned)
        state = after_apply(kind.fields, planned, live)
        unresolved = {
            key for key, field in kind.fields.items() if field.single and planned[key] is UNKNOWN
        }
        return provider_pb2.CreateResponse(
            id=identity,
            properties=to_struct(
                self._finished(
                    kind,
                    identity,
                    state,
                    without={key for key in unresolved if state[key] is None},
                )
            ),
        )

    def _create(self, kind: ResourceKind, urn: str, planned: Properties) -> tuple[str, Properties]:
        known = _known(planned)
        try:
            resource = self.resource(kind)
            identity = resource.create(known)
        except HalfMadeError as error:
            raise PartlyMadeError(
                f"creating {urn}: {_listed(error)}",
                identity=error.identity,
                properties=self._finished(
                    kind, error.identity, after_apply(kind.fields, planned, known)
                ),
            ) from error
        except ResourceError as error:
            raise PluginError(_listed(error)) from error
        try:
            found = resource.read(identity, known)
        except ResourceError as error:
            raise PartlyMadeError(
                f"creating {urn}: {_listed(error)}",
                identity=identity,
                properties=self._finished(kind, identity, after_apply(kind.fields, planned, known)),
            ) from error
        if found is None:
            raise PluginError(_listed(ResourceError(f"{urn} was gone right after its creation")))
        return found

    @answered
    def Read(self, request: Any) -> Any:
        """The live resource, or an empty answer if it is gone."""
        kind = self._kind(request.urn, "Read")
        state = from_struct(request.properties)
        refresh = bool(state)
        if not refresh and not kind.importable:
            return provider_pb2.ReadResponse()  # it isn't known by its id alone
        prior = prior_state(kind.fields, state)
        found = self._called(
            "refreshing", request.urn, lambda: self.resource(kind).read(request.id, prior)
        )
        if found is None:
            return provider_pb2.ReadResponse()
        identity, live = found
        read = after_refresh(kind.fields, live)
        if refresh:
            inputs = refreshed_inputs(kind.fields, from_struct(request.inputs), read)
        else:
            inputs = imported_inputs(kind.fields, read)
        return provider_pb2.ReadResponse(
            id=identity,
            properties=to_struct(self._finished(kind, identity, read)),
            inputs=to_struct(inputs),
        )

    @answered
    def Update(self, request: Any) -> Any:
        """Change a resource in place, or say what it would be."""
        kind = self._kind(request.urn, "Update")
        olds = from_struct(request.olds)
        prior = prior_state(kind.fields, olds)
        planned = plan_state(kind.fields, olds, from_struct(request.news))
        if needs_replacement(kind.fields, prior, planned):
            raise PluginError(
                "internal: expected diff to not require deletion or replacement during Update of "
                f"{request.urn}"
            )
        state = planned if request.preview else self._update(kind, request, prior, planned)
        state = prior_state(kind.fields, state)
        finished = self._finished(kind, request.id, state, preview=request.preview)
        return provider_pb2.UpdateResponse(properties=to_struct(finished))

    def _update(
        self, kind: ResourceKind, request: Any, prior: Properties, planned: Properties
    ) -> Properties:
        try:
            return self.resource(kind).update(request.id, prior, _known(planned))
        except ResourceError as error:
            raise PartlyMadeError(
                f"updating {request.urn}: {_listed(error)}",
                identity=request.id,
                properties=self._finished(kind, request.id, prior),
            ) from error

    @answered
    def Delete(self, request: Any) -> Any:
        """Take a resource away."""
        kind = self._kind(request.urn, "Delete")
        state = prior_state(kind.fields, from_struct(request.properties))
        self._called("deleting", request.urn, lambda: self.resource(kind).delete(request.id, state))
        return empty_pb2.Empty()

    def _finished(
        self,
        kind: ResourceKind,
        identity: str,
        state: Mapping[str, Value],
        *,
        without: Collection[str] = (),
        preview: bool = False,
    ) -> Properties:
        """State with what every bridged resource has besides its own properties."""
        finished: Properties = {**state, ID_KEY: identity}
        note = meta(timeouts=kind.timeouts, schema_version=kind.schema_version, preview=preview)
        if note is not None:
            finished[META_KEY] = note
        if self._traits.state_delta and not holds_unknown(finished):
            finished[DELTA_KEY] = state_delta(kind.fields, state, without=without)
        return finished

    @staticmethod
    def _called(doing: str, urn: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ResourceError as error:
            raise PluginError(f"{doing} {urn}: {_listed(error)}") from error


def _naming(request: Any) -> Naming:
    name = request.name or request.urn.split("::")[-1]
    if not request.HasField("autonaming"):
        return Naming(resource=name, seed=request.randomSeed)
    mode, modes = request.autonaming.mode, provider_pb2.CheckRequest.AutonamingOptions
    return Naming(
        resource=name,
        seed=request.randomSeed,
        proposed=request.autonaming.proposed_name,
        disabled=mode == modes.DISABLE,
    )


def _failures(failures: Sequence[Failure]) -> list[Any]:
    return [
        provider_pb2.CheckFailure(property=failure.property, reason=failure.reason)
        for failure in failures
    ]


def _presence_change(before: bool, after: bool) -> Change:  # noqa: FBT001
    if before and after:
        return Change.UPDATE
    return Change.DELETE if before else Change.ADD


def _property_diffs(changes: Changes) -> dict[str, Any]:
    kinds = provider_pb2.PropertyDiff.Kind
    return {
        path: provider_pb2.PropertyDiff(kind=kinds.Value(change.value))
        for path, change in changes.items()
    }


def _top_level(path: str) -> str:
    return path.split(".")[0].split("[")[0]


def _without_ignored(changes: Changes, ignored: Sequence[str]) -> Changes:
    def is_ignored(path: str) -> bool:
        return any(path == part or path.startswith((f"{part}.", f"{part}[")) for part in ignored)

    return {path: change for path, change in changes.items() if not is_ignored(path)}


def _diff_response(
    kind: ResourceKind, changes: Changes, news: Mapping[str, Value], *, changed: bool
) -> Any:
    replaces = sorted(_top_level(path) for path, change in changes.items() if change.replaces)
    answers = provider_pb2.DiffResponse
    return provider_pb2.DiffResponse(
        changes=answers.DIFF_SOME if changed and changes else answers.DIFF_NONE,
        replaces=replaces,
        stables=sorted(
            key for key, field in kind.fields.items() if field.replaces and key not in replaces
        ),
        deleteBeforeReplace=bool(replaces)
        and (kind.deletes_before_replacing or _named_by_hand(kind, news)),
        diffs=sorted({_top_level(path) for path in changes}),
        detailedDiff=_property_diffs(changes),
        hasDetailedDiff=True,
    )


def _named_by_hand(kind: ResourceKind, news: Mapping[str, Value]) -> bool:
    """Whether the program gives the name: old and new can't stand side by side then."""
    defaults = news.get(DEFAULTS_KEY)
    if not isinstance(defaults, list):
        return False
    return any(
        field.autonamed and key in news and key not in defaults
        for key, field in kind.fields.items()
    )


def _known(planned: Mapping[str, Value]) -> Properties:
    known: Properties = _unknowns_as_null(dict(planned))
    return known


def _unknowns_as_null(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _unknowns_as_null(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_unknowns_as_null(part) for part in value]
    return None if value is UNKNOWN else value


def _listed(error: Exception) -> str:
    """An error as the bridged provider's library prints a list of one."""
    return f"1 error occurred:\n\t* {error}\n\n"
