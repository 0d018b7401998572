"""A pair of ssh keys that lives in the stack's state alone, its private half as a secret."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from provider.resource import UNKNOWN, Data, Failure, Field, Resource

PURPOSES = ("host", "login")
"""Who proves itself with the key: the guest, or the host that logs in to it."""


@dataclass(frozen=True)
class SshKey:
    """An ed25519 pair in OpenSSH's forms."""

    private: str
    public: str
    """Type and key, without a comment."""

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` shows it."""
        blob = base64.b64decode(self.public.split()[1])
        digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
        return f"SHA256:{digest}"


def make_key() -> SshKey:
    """A new pair."""
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    return SshKey(private.decode(), _public(key))


def _public(key: ed25519.Ed25519PrivateKey) -> str:
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        .decode()
    )


def faults(key: SshKey) -> list[str]:
    """Why the pair has to be replaced; empty when all is well."""
    try:
        loaded = serialization.load_ssh_private_key(key.private.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return ["the stored key can't be read"]
    if not isinstance(loaded, ed25519.Ed25519PrivateKey) or _public(loaded) != key.public:
        return ["the stored halves don't belong together"]
    return []


class SshKeyResource(Resource):
    """Adapter of ``SshKey``."""

    type_name = "SshKey"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="purpose", kind=str, replaces=True),
    )
    secret_outputs = frozenset({"private_key"})
    drift_fields: ClassVar = ("findings",)

    def problems(self, inputs: Data, old: Data) -> Iterator[Failure]:  # noqa: ARG002
        """A purpose that nobody has."""
        if inputs["purpose"] not in (*PURPOSES, UNKNOWN):
            yield Failure("purpose", f"purpose: one of {', '.join(PURPOSES)}")

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """Halves that don't match: only a new pair helps."""
        return {"findings": True} if state.get("findings") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """Only known when made."""
        names = ("private_key", "public", "fingerprint")
        return {**dict.fromkeys(names, UNKNOWN), "findings": []}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Make a pair; its fingerprint is its id."""
        made = make_key()
        return f"{inputs['purpose']}/{made.fingerprint}", _outputs(made)

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """Check what is stored."""
        kept = {name: state[name] for name in ("private_key", "public", "fingerprint")}
        return {**kept, "findings": faults(SshKey(state["private_key"], state["public"]))}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Never called: every input and every drift replaces."""
        return {**old, **new}

    def delete(self, resource_id: str, state: Data) -> None:
        """Nothing: the state forgets it, and the guest's copy goes with the guest."""


def _outputs(made: SshKey) -> Data:
    return {
        "private_key": made.private,
        "public": made.public,
        "fingerprint": made.fingerprint,
        "findings": [],
    }
