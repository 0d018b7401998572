"""The part of the stack's configuration that describes a VM."""

from __future__ import annotations

import base64
import binascii
import re

from abox.refusals import RefusedError
from abox.render.domain import check_template as check_template_text
from abox.render.nwfilter import MAC_PATTERN

CPUS_MIN, CPUS_MAX = 1, 255
MEMORY_MB_MIN, MEMORY_MB_MAX = 256, 4 * 1024 * 1024
DISK_GB_MIN, DISK_GB_MAX = 1, 64 * 1024

USER = "agent"
"""The account that the built image has."""

_MAC = re.compile(MAC_PATTERN[1:-1])
_IMAGE = re.compile(r"(/[^\0]*)@sha256:([0-9a-f]{64})")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PACKAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9+._:~=/-]{0,254}")
_MODE = re.compile(r"0?[0-7]{3,4}")
_OWNER = re.compile(r"[a-z_][a-z0-9_-]{0,31}(:[a-z_][a-z0-9_-]{0,31})?")
_KEY_TYPES = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
_MULTICAST, _TAPS_OWN = 1, 0xFE


def check_mac(value: str) -> str:
    """A hardware address for the VM, or empty."""
    if not value:
        return value
    remedy = "write six bytes in hex, for example 52:54:00:12:34:56"
    if not _MAC.fullmatch(value):
        raise RefusedError(f"a hardware address matches {MAC_PATTERN}", remedy)
    first = int(value[:2], 16)
    if first & _MULTICAST or not int(value.replace(":", ""), 16):
        raise RefusedError("it isn't the address of one machine", remedy)
    if first == _TAPS_OWN:
        raise RefusedError("libvirt keeps addresses that begin with FE for taps", remedy)
    return value.upper()


def split_image(value: str) -> tuple[str, str]:
    """Path and digest of a user's own image.

    Raises: ValueError if it has another form.
    """
    found = _IMAGE.fullmatch(value)
    if found is None or not value.isprintable() or "/../" in found.group(1) + "/":
        raise ValueError(value)
    return found.group(1), found.group(2)


def check_image(value: str) -> str:
    """A disk image of the user's own with its digest, or empty."""
    if value:
        try:
            split_image(value)
        except ValueError as error:
            raise RefusedError(
                "an image is an absolute path and the digest of the file, which tells if it was "
                "exchanged",
                "write /path/disk.qcow2@sha256:<64 hex digits>, as sha256sum prints them",
            ) from error
    return value


def check_user(value: str) -> str:
    """Name of the account in the guest."""
    if not _USER.fullmatch(value):
        raise RefusedError("it is no name of an account", "write for example agent")
    if value == "root":
        raise RefusedError("nobody logs in as root", "write for example agent: it may use sudo")
    return value


def check_ssh_key(value: str) -> str:
    """A public key that may log in besides the stack's own, or empty."""
    remedy = "write the line of a .pub file, for example ssh-ed25519 AAAA… name"
    if "PRIVATE KEY" in value:
        raise RefusedError("it is a private key", "give the public half, and keep this one")
    if value:
        kind, _, rest = value.partition(" ")
        if kind not in _KEY_TYPES or not value.isprintable() or not _is_key(kind, rest):
            raise RefusedError("it is no public key of ssh on one line", remedy)
    return value


def _is_key(kind: str, rest: str) -> bool:
    """Whether the text behind a type is a key of that type, and perhaps a comment."""
    try:
        blob = base64.b64decode(rest.partition(" ")[0], validate=True)
    except (binascii.Error, ValueError):
        return False
    return blob.startswith(len(kind).to_bytes(4, "big") + kind.encode())


def check_package(value: str) -> str:
    """Name of a package, as the guest's package manager takes it."""
    if not _PACKAGE.fullmatch(value):
        raise RefusedError("it is no name of a package", "write for example jq or jq=1.6-2.1")
    return value


def check_path(value: str) -> str:
    """Place of a file in the guest."""
    if not value.startswith("/") or not value.isprintable() or value.endswith("/"):
        raise RefusedError("a file's path is absolute", "write for example /etc/motd")
    return value


def check_mode(value: str) -> str:
    """Mode of a file."""
    if not _MODE.fullmatch(value):
        raise RefusedError("a mode is three or four octal digits in quotes", "write '0644'")
    return value


def check_owner(value: str) -> str:
    """Owner of a file."""
    if not _OWNER.fullmatch(value):
        raise RefusedError("an owner is user or user:group", "write for example agent:agent")
    return value


def check_text(value: str) -> str:
    """Text for the guest."""
    if any(not (c.isprintable() or c in "\n\t") for c in value):
        raise RefusedError("text for the guest holds no control characters", "remove them")
    return value


def check_command(value: str) -> str:
    """A shell command for the end of the guest's first boot."""
    if not value.strip():
        raise RefusedError("it is empty", "remove it")
    return check_text(value)


def check_template(value: str) -> str:
    """A domain of the user's own in the place of the hardened one, or empty."""
    if value:
        try:
            check_template_text(value)
        except ValueError as error:
            raise RefusedError(
                str(error),
                "write a whole <domain> with {{filter}}, {{bridge}} and {{mac}} at its interface",
            ) from error
    return value
