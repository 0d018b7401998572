"""The ResourceProvider service for local commands."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from toolchain.plugins.bridge.check import Failure
from toolchain.plugins.command.engine_log import EngineLog
from toolchain.plugins.command.inputs import INPUTS, TOKEN, check_inputs, diff_inputs
from toolchain.plugins.command.shell import Commands, Finished, StartError, Stream
from toolchain.plugins.server import PluginError, answered
from toolchain.plugins.wire_values import (
    UNKNOWN,
    Properties,
    Secret,
    Value,
    from_struct,
    holds_unknown,
    reveal,
    to_struct,
)

NAME: Final = "command"
VERSION: Final = "1.2.1"
"""Version of the official plugin that this one stands in for."""

FRAMEWORK_KEY: Final = "__pulumi-go-provider-version"
FRAMEWORK_VERSION: Final = "1.2.0"
"""The official plugin notes its framework's version in the configuration."""

DEFAULT_INTERPRETER: Final = ("/bin/sh", "-c")

MASK: Final = "[secret]"

SHORTEST_MASKED: Final = 3
"""Characters that a secret must have to be masked in what a command prints."""


class CommandProvider(provider_pb2_grpc.ResourceProviderServicer):
    """Runs a command at creation, update and deletion; it never reads anything back."""

    def __init__(self, log: EngineLog) -> None:
        self._log = log
        self._commands = Commands()

    @answered
    def GetPluginInfo(self, _request: Any) -> Any:
        """Version of the plugin."""
        return plugin_pb2.PluginInfo(version=VERSION)

    @answered
    def GetSchema(self, _request: Any) -> Any:
        """Name and version only: the SDK is generated from the official schema."""
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": NAME, "version": VERSION}))

    @answered
    def Cancel(self, _request: Any) -> Any:
        """End the commands that are running."""
        self._commands.end_all()
        return empty_pb2.Empty()

    @answered
    def CheckConfig(self, request: Any) -> Any:
        """There is nothing to configure."""
        unknown = from_struct(request.news).keys() - {"version", "pluginDownloadURL", FRAMEWORK_KEY}
        failures = [Failure(key, f"{key!r} can't be configured") for key in sorted(unknown)]
        if failures:
            return provider_pb2.CheckResponse(failures=_failures(failures))
        inputs = {**from_struct(request.news), FRAMEWORK_KEY: FRAMEWORK_VERSION}
        return provider_pb2.CheckResponse(inputs=to_struct(inputs))

    @answered
    def DiffConfig(self, _request: Any) -> Any:
        """There is nothing to configure."""
        return provider_pb2.DiffResponse()

    @answered
    def Configure(self, _request: Any) -> Any:
        """Secrets, outputs and previews are understood."""
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, acceptResources=True, acceptOutputs=True, supportsPreview=True
        )

    @answered
    def Check(self, request: Any) -> Any:
        """The inputs as they are, and all that is wrong with them."""
        _check_type(request.urn)
        given = from_struct(request.news, keep_secrets=True)
        inputs = {key: value for key, value in given.items() if value is not None}
        return provider_pb2.CheckResponse(
            inputs=to_struct(inputs), failures=_failures(check_inputs(inputs))
        )

    @answered
    def Diff(self, request: Any) -> Any:
        """Every change is an update; the SDK asks for replacement where `triggers` change."""
        _check_type(request.urn)
        olds, news = _old_inputs(request), from_struct(request.news, keep_secrets=True)
        for key in request.ignoreChanges:
            if key in olds:
                news[key] = olds[key]
        changes = diff_inputs(olds, news)
        answers, kinds = provider_pb2.DiffResponse, provider_pb2.PropertyDiff.Kind
        return provider_pb2.DiffResponse(
            changes=answers.DIFF_SOME if changes else answers.DIFF_NONE,
            diffs=sorted({path.split(".")[0].split("[")[0] for path in changes}),
            detailedDiff={
                path: provider_pb2.PropertyDiff(kind=kinds.Value(change.value))
                for path, change in changes.items()
            },
            hasDetailedDiff=True,
        )

    @answered
    def Create(self, request: Any) -> Any:
        """Run `create`; its output becomes the resource's."""
        _check_type(request.urn)
        inputs = _inputs(request.properties)
        identity = f"{request.name or request.urn.split('::')[-1]}{secrets.token_hex(4)}"
        if request.preview:
            state = {**inputs, "stdout": UNKNOWN, "stderr": UNKNOWN}
        else:
            outputs: Properties = {"stdout": "", "stderr": ""}
            state = {**inputs, **self._run(request.urn, inputs, "create", outputs)}
        return provider_pb2.CreateResponse(id=identity, properties=to_struct(state))

    @answered
    def Read(self, request: Any) -> Any:
        """What is in the state: nothing is ever read back."""
        _check_type(request.urn)
        return provider_pb2.ReadResponse(
            id=request.id, properties=request.properties, inputs=request.inputs
        )

    @answered
    def Update(self, request: Any) -> Any:
        """Run `update`, or `create` where there is none."""
        _check_type(request.urn)
        inputs = _inputs(request.news)
        olds = from_struct(request.olds, keep_secrets=True)
        outputs: Properties = {key: olds.get(key, "") for key in ("stdout", "stderr")}
        if request.preview:
            if _changes_output(inputs, olds):
                outputs = {"stdout": UNKNOWN, "stderr": UNKNOWN}
        else:
            step = "update" if inputs.get("update") is not None else "create"
            outputs = self._run(request.urn, inputs, step, outputs)
        return provider_pb2.UpdateResponse(properties=to_struct({**inputs, **outputs}))

    @answered
    def Delete(self, request: Any) -> Any:
        """Run `delete`, if there is one."""
        _check_type(request.urn)
        state = from_struct(request.properties, keep_secrets=True)
        outputs: Properties = {key: state.get(key, "") for key in ("stdout", "stderr")}
        self._run(request.urn, state, "delete", outputs)
        return empty_pb2.Empty()

    def _run(self, urn: str, inputs: Properties, step: str, outputs: Properties) -> Properties:
        """Run one of a resource's commands and return its output; none, and the old one stays."""
        if inputs.get(step) is None:
            return outputs
        given: Properties = reveal(inputs)
        hidden = _secrets(inputs)

        def show(stream: Stream, line: str) -> None:
            if _is_logged(stream, given.get("logging")):
                self._log.info(urn, _masked(line, hidden))

        command = given[step]
        try:
            done = self._commands.run(
                [*(given.get("interpreter") or DEFAULT_INTERPRETER), command],
                directory=given.get("dir") or str(Path.cwd()),
                environment=_environment(given, reveal(outputs)),
                stdin=given.get("stdin") or "",
                on_line=show,
            )
        except StartError as error:
            text = f"{error}: running {_quoted(command)}:\n"
            raise PluginError(_masked(text, hidden)) from error
        if done.code != 0:
            raise PluginError(_masked(_failure(done, command), hidden))
        return {key: getattr(done, key).removesuffix("\n") for key in ("stdout", "stderr")}


def _check_type(urn: str) -> None:
    token = urn.split("::")[2].split("$")[-1]
    if token != TOKEN:
        raise PluginError(f"unrecognized resource type: {token}; known is {TOKEN}")


def _failures(failures: list[Failure]) -> list[Any]:
    return [
        provider_pb2.CheckFailure(property=failure.property, reason=failure.reason)
        for failure in failures
    ]


def _inputs(struct: Any) -> Properties:
    given = from_struct(struct, keep_secrets=True)
    return {key: value for key, value in given.items() if key in INPUTS and value is not None}


def _old_inputs(request: Any) -> Properties:
    if request.HasField("old_inputs"):
        return from_struct(request.old_inputs, keep_secrets=True)
    return _inputs(request.olds)


def _changes_output(inputs: Mapping[str, Value], olds: Mapping[str, Value]) -> bool:
    return any(
        holds_unknown(inputs.get(key)) or (key in olds and olds[key] != inputs.get(key))
        for key in INPUTS
    )


def _environment(given: Mapping[str, Value], outputs: Mapping[str, Value]) -> dict[str, str]:
    environment = dict(given.get("environment") or {})
    if given.get("addPreviousOutputInEnv") is not False:
        names = {"PULUMI_COMMAND_STDOUT": "stdout", "PULUMI_COMMAND_STDERR": "stderr"}
        environment.update({name: outputs[key] for name, key in names.items() if outputs.get(key)})
    return environment


def _is_logged(stream: Stream, logging: Value) -> bool:
    return logging in (None, "stdoutAndStderr", stream)


def _failure(done: Finished, command: str) -> str:
    return f"{done.describe_end()}: running {_quoted(command)}:\n{done.printed}"


def _quoted(command: str) -> str:
    return json.dumps(command, ensure_ascii=False)


def _secrets(value: Value, *, inside: bool = False) -> list[str]:
    """Strings of secret inputs, longest first, as what a command prints is searched for them."""
    found: set[str] = set()
    if isinstance(value, Secret):
        found.update(_secrets(value.value, inside=True))
    elif isinstance(value, dict):
        for item in value.values():
            found.update(_secrets(item, inside=inside))
    elif isinstance(value, list):
        for item in value:
            found.update(_secrets(item, inside=inside))
    elif inside and isinstance(value, str) and len(value) >= SHORTEST_MASKED:
        found.update((value, _quoted(value)[1:-1]))
    return sorted(found, key=len, reverse=True)


def _masked(text: str, hidden: list[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, MASK)
    return text
