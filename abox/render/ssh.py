"""ssh's settings for the way from the host into a VM, whose every answer may be hostile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address

ALIAS = "guest"
"""Name of the VM in the settings and in the list of known hosts."""

CONNECT_TIMEOUT_S = 5

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")

_PUBLIC_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{68}={0,2}")


@dataclass(frozen=True, kw_only=True)
class SshSpec:
    """What the settings are made of; none of it may hold a blank or a quote."""

    address: str
    user: str
    key_file: str
    known_hosts_file: str

    def __post_init__(self) -> None:
        IPv4Address(self.address)
        if not _USER.fullmatch(self.user):
            raise ValueError(f"{self.user!r}: no name of an account")
        for path in (self.key_file, self.known_hosts_file):
            if not path.startswith("/") or not path.isprintable() or '"' in path or "%" in path:
                raise ValueError(f"{path!r}: an absolute path without quotes and percent signs")


def render_config(spec: SshSpec) -> str:
    """A complete ssh_config(5): nothing of the host's own is offered to the guest."""
    settings = {
        "HostName": spec.address,
        "HostKeyAlias": ALIAS,
        "User": spec.user,
        "IdentityFile": f'"{spec.key_file}"',
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": f'"{spec.known_hosts_file}"',
        "GlobalKnownHostsFile": "none",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "VerifyHostKeyDNS": "no",
        "HostKeyAlgorithms": "ssh-ed25519",
        "BatchMode": "yes",
        "PreferredAuthentications": "publickey",
        "PasswordAuthentication": "no",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "PermitLocalCommand": "no",
        "EnableEscapeCommandline": "no",
        "ConnectTimeout": str(CONNECT_TIMEOUT_S),
        "ServerAliveInterval": "15",
        "LogLevel": "ERROR",
    }
    return f"Host {ALIAS}\n" + "".join(f"  {name} {value}\n" for name, value in settings.items())


def render_known_hosts(name: str, public_key: str) -> str:
    """The list of known hosts with the one key that the guest must prove.

    Raises: ValueError if that is no ed25519 key on one line.
    """
    if not _PUBLIC_KEY.fullmatch(public_key):
        raise ValueError("the host's public key is no ed25519 key")
    return f"{name} {public_key}\n"
