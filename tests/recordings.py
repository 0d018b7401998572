"""Recorded calls of the official plugins, and how a test puts them to a stand-in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

FOLDER = Path(__file__).resolve().parent / "data" / "wire"

STATUS_PREFIX = "rpc error: code = Unknown desc = "
"""What the recorder's gRPC library put before an error's own text."""

REQUESTS: dict[str, Any] = {
    "Handshake": provider_pb2.ProviderHandshakeRequest,
    "GetPluginInfo": empty_pb2.Empty,
    "Cancel": empty_pb2.Empty,
    "CheckConfig": provider_pb2.CheckRequest,
    "DiffConfig": provider_pb2.DiffRequest,
    "Configure": provider_pb2.ConfigureRequest,
    "Check": provider_pb2.CheckRequest,
    "Diff": provider_pb2.DiffRequest,
    "Create": provider_pb2.CreateRequest,
    "Read": provider_pb2.ReadRequest,
    "Update": provider_pb2.UpdateRequest,
    "Delete": provider_pb2.DeleteRequest,
}

Document = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """One call: what was asked, and what the official plugin said."""

    name: str
    call: str
    request: Document
    response: Document | None
    error: str | None

    @property
    def preview(self) -> bool:
        """The call was made for a preview: nothing is touched."""
        return bool(self.request.get("preview"))

    def spelled(self, replacements: dict[str, str]) -> Recording:
        """The same call with other names, addresses or ids."""
        text = json.dumps([self.request, self.response, self.error])
        for old, new in replacements.items():
            text = text.replace(old, new)
        request, response, error = json.loads(text)
        return Recording(self.name, self.call, request, response, error)


def recording(name: str) -> Recording:
    """A recording by its file's name without the ending."""
    document = json.loads((FOLDER / f"{name}.json").read_text())
    errors = document.get("errors")
    return Recording(
        name=name,
        call=document["method"].rpartition("/")[2],
        request=document["request"],
        response=document.get("response"),
        error=errors[0].removeprefix(STATUS_PREFIX) if errors else None,
    )


def all_recordings() -> list[Recording]:
    """Every recording, in the order of the files' names."""
    return [recording(path.stem) for path in sorted(FOLDER.glob("*.json"))]


class CallFailedError(Exception):
    """The plugin answered with an error."""

    def __init__(self, text: str, details: list[Any]) -> None:
        super().__init__(text)
        self.details = details


class Context:
    """Stands for gRPC's side of a call."""

    def __init__(self) -> None:
        self._status: bytes | None = None

    def set_trailing_metadata(self, metadata: tuple[tuple[str, bytes], ...]) -> None:
        self._status = dict(metadata)["grpc-status-details-bin"]

    def set_code(self, code: object) -> None:
        self._code = code

    def set_details(self, details: str) -> None:
        self._details = details

    def abort(self, _code: object, text: str) -> NoReturn:
        details = []
        if self._status is not None:
            for packed in status_pb2.Status.FromString(self._status).details:
                detail = provider_pb2.ErrorResourceInitFailed()
                packed.Unpack(detail)
                details.append(detail)
        raise CallFailedError(text, details)


def ask(
    servicer: provider_pb2_grpc.ResourceProviderServicer, call: str, request: Document
) -> Document:
    """Put a call to a plugin, as data in and out.

    Raises:
        CallFailedError: it answered with an error.
    """
    message = json_format.ParseDict(request, REQUESTS[call](), ignore_unknown_fields=True)
    answer: Document = json_format.MessageToDict(getattr(servicer, call)(message, Context()))
    return answer


def differences(wanted: Any, got: Any, path: str = "") -> Iterator[str]:
    """Where two documents differ, one line a place."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in sorted(wanted.keys() | got.keys()):
            if key not in wanted or key not in got:
                yield f"{path}.{key}: {'missing' if key in wanted else 'too much'}"
            else:
                yield from differences(wanted[key], got[key], f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for index, (left, right) in enumerate(zip(wanted, got, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif wanted != got:
        yield f"{path}: wanted {wanted!r}, got {got!r}"
