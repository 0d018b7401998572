"""The provider's gRPC side: finds the resource, moves blocking work into threads, shows errors."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import (
    CheckFailure,
    CheckRequest,
    CheckResponse,
    CreateRequest,
    CreateResponse,
    DeleteRequest,
    DiffRequest,
    DiffResponse,
    PropertyDiff,
    PropertyDiffKind,
    Provider,
    ReadRequest,
    ReadResponse,
    UpdateRequest,
    UpdateResponse,
)
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime.proto import provider_pb2_grpc

from abox.errors import AboxError
from provider.resource import Data, Failure, Resource, is_unknown
from provider.values import plain_map, wrapped

VERSION = "0.1.0"
"""Version that the plugin reports."""


class AboxProvider(Provider):
    """Serves every resource of the package; knows the engine's rules and nothing of the host."""

    def __init__(self, load: Callable[[], Mapping[str, Resource]]) -> None:
        """Serve what ``load`` gives: resources by the last part of their type token."""
        self._load = load
        self._served: Mapping[str, Resource] | None = None

    async def load(self) -> Mapping[str, Resource]:
        """The resources; the first call may take its time."""
        if self._served is None:
            self._served = await asyncio.to_thread(self._load)
        return self._served

    async def _resource(self, type_token: str) -> Resource:
        served = await self.load()
        # Inside a component the token reads ``parent:token$own:token``.
        own = type_token.rsplit("$", 1)[-1]
        package, _, rest = own.partition(":")
        name = rest.rsplit(":", 1)[-1]
        if package != "abox" or name not in served:
            raise AboxError(
                what=f"resource type {own!r} is unknown",
                why="the abox provider of this checkout doesn't have it",
                remedy=f"use one of {', '.join(sorted(served))}",
            )
        return served[name]

    async def check(self, request: CheckRequest) -> CheckResponse:
        """All failures of the inputs at once; fills in defaults."""
        resource = await self._resource(request.type)
        inputs = dict(request.new_inputs)
        for field in resource.fields:
            if field.name not in inputs and not field.required:
                inputs[field.name] = wrapped(field.default, secret=field.secret)
        failures = await asyncio.to_thread(
            _failures, resource, plain_map(inputs), plain_map(request.old_inputs)
        )
        return CheckResponse(inputs, [CheckFailure(f.name, f.reason) for f in failures])

    async def diff(self, request: DiffRequest) -> DiffResponse:
        """Changed inputs, and outputs that show drift."""
        resource = await self._resource(request.type)
        old, new = plain_map(request.old_state), plain_map(request.new_inputs)
        changed = _changes(resource, old, new)
        for name in request.ignore_changes:
            changed.pop(name, None)
        return _diff_response(resource, changed, {field.name for field in resource.fields})

    async def create(self, request: CreateRequest) -> CreateResponse:
        """Make the resource; in preview only say what it will look like."""
        resource = await self._resource(request.type)
        inputs = plain_map(request.properties)
        if request.preview:
            outputs = resource.planned(inputs, None)
            return CreateResponse("", _properties(resource, request.properties, outputs))
        resource_id, outputs = await asyncio.to_thread(resource.create, inputs)
        return CreateResponse(resource_id, _properties(resource, request.properties, outputs))

    async def read(self, request: ReadRequest) -> ReadResponse:
        """The resource as it is, or an empty id if it is gone."""
        resource = await self._resource(request.type)
        state = plain_map({**request.inputs, **request.properties})
        if resource.fields and not request.inputs:
            raise AboxError(
                what=f"{resource.type_name} {request.resource_id!r} can't be imported",
                why="its inputs are known only to the program that made it",
                remedy="let `pulumi up` create it",
            )
        outputs = await asyncio.to_thread(resource.read, request.resource_id, state)
        if outputs is None:
            return ReadResponse("", {}, request.inputs)
        properties = _properties(resource, request.inputs, outputs)
        # An empty map of inputs would wipe the stored ones.
        return ReadResponse(request.resource_id, properties, request.inputs)

    async def update(self, request: UpdateRequest) -> UpdateResponse:
        """Apply changed inputs and repair drift; in preview only say what will be."""
        resource = await self._resource(request.type)
        old, new = plain_map(request.olds), plain_map(request.news)
        if request.preview:
            outputs = resource.planned(new, old)
        else:
            outputs = await asyncio.to_thread(resource.update, request.resource_id, old, new)
        return UpdateResponse(_properties(resource, request.news, outputs))

    async def delete(self, request: DeleteRequest) -> None:
        """Take the resource away."""
        resource = await self._resource(request.type)
        state = plain_map(request.properties)
        await asyncio.to_thread(resource.delete, request.resource_id, state)


def _failures(resource: Resource, inputs: Data, old: Data) -> list[Failure]:
    known = {field.name for field in resource.fields}
    failures = [
        Failure(name, f"{name}: unknown input; valid are {', '.join(sorted(known))}")
        for name in sorted(inputs.keys() - known)
    ]
    for field in resource.fields:
        value = inputs.get(field.name)
        if not is_unknown(value) and (problem := field.problem(value)):
            failures.append(Failure(field.name, f"{field.name}: {problem}"))
    if failures:
        return failures
    try:
        return list(resource.problems(inputs, old))
    except AboxError as error:
        return [Failure("", str(error))]


def _changes(resource: Resource, old: Data, new: Data) -> dict[str, bool]:
    """Name of each changed property; True if it needs a replacement."""
    changed = {
        field.name: field.replaces
        for field in resource.fields
        if is_unknown(new.get(field.name))
        or not resource.same(field.name, old.get(field.name), new.get(field.name))
    }
    return {**resource.drift(old, new), **changed}


def _diff_response(resource: Resource, changed: dict[str, bool], inputs: set[str]) -> DiffResponse:
    replaces = [name for name, replace in changed.items() if replace]
    kinds = {True: PropertyDiffKind.UPDATE_REPLACE, False: PropertyDiffKind.UPDATE}
    return DiffResponse(
        changes=bool(changed),
        replaces=replaces,
        delete_before_replace=bool(replaces) and resource.delete_before_replace,
        diffs=list(changed),
        detailed_diff={
            name: PropertyDiff(kinds[replace], name in inputs) for name, replace in changed.items()
        },
    )


def _properties(
    resource: Resource, inputs: Mapping[str, PropertyValue], outputs: Data
) -> dict[str, PropertyValue]:
    """Inputs as they came (secrets stay secret) and, over them, the outputs."""
    secret = {field.name for field in resource.fields if field.secret} | resource.secret_outputs
    kept = {name: v.with_secret(v.is_secret or name in secret) for name, v in inputs.items()}
    made = {name: wrapped(data, secret=name in secret) for name, data in outputs.items()}
    return {**kept, **made}


def _three_lines(method: str) -> Callable[..., Awaitable[Any]]:
    """The servicer's ``method``, without a traceback in what the user sees of an AboxError."""
    inner = getattr(ProviderServicer, method)

    async def guarded(self: ProviderServicer, request: Any, context: Any) -> Any:
        try:
            return await inner(self, request, context)
        except Exception as error:
            # The SDK turns every error into one whose text ends in a traceback.
            if isinstance(error.__context__, AboxError):
                await context.abort(grpc.StatusCode.UNKNOWN, str(error.__context__))
            raise

    return guarded


class _Servicer(ProviderServicer):
    """The SDK's servicer with errors that can be read."""

    Check = _three_lines("Check")
    Diff = _three_lines("Diff")
    Create = _three_lines("Create")
    Read = _three_lines("Read")
    Update = _three_lines("Update")
    Delete = _three_lines("Delete")


def _resources() -> Mapping[str, Resource]:
    # Half of the provider's start: the engine goes on with its other plugins meanwhile.
    from provider.registry import resources

    return resources()


async def _serve(args: list[str]) -> None:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 400 * 1024 * 1024)])
    provider = AboxProvider(_resources)
    servicer = _Servicer(args, VERSION, provider, engine_address=args[-1] if args else "")
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Ctrl-C reaches the whole process group; the engine finishes what is under way, then stops us.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await provider.load()
    await stop.wait()
    # Work under way (an nft transaction, an exec) is finished, so that its result is known.
    await server.stop(grace=30)


def main(args: list[str]) -> None:
    """Serve until the engine says stop."""
    asyncio.run(_serve(args))
