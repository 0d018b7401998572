"""What a domain takes and gives."""

from __future__ import annotations

from typing import Final

from toolchain.plugins.bridge.fields import (
    Fields,
    Kind,
    flag,
    maps,
    matching,
    objects,
    text,
    texts,
    whole,
)

DISK: Final[Fields] = {
    "volumeId": text(replaces=False),
    "url": text(replaces=False, implemented=False),
    "file": text(replaces=False),
    "scsi": flag(replaces=True, default=False, offered=False),
    "wwn": text(replaces=False, computed=True, implemented=False),
    "blockDevice": text(replaces=False, implemented=False),
}

INTERFACE: Final[Fields] = {
    "networkId": text(replaces=False, computed=True, implemented=False),
    "networkName": text(replaces=False, computed=True, implemented=False),
    "bridge": text(replaces=False),
    "vepa": text(replaces=False, implemented=False),
    "macvtap": text(replaces=False, implemented=False),
    "passthrough": text(replaces=False, implemented=False),
    "hostname": text(replaces=False, computed=True, implemented=False),
    "mac": text(replaces=False, computed=True, any_case=True),
    "waitForLease": flag(offered=False),
    "addresses": texts(Kind.LIST, computed=True, replaces=False, implemented=False),
}

CONSOLE: Final[Fields] = {
    "type": text(required=True, offered="pty"),
    "sourcePath": text(implemented=False),
    "sourceHost": text(default="127.0.0.1"),
    "sourceService": text(default="0"),
    "targetPort": text(required=True, validate=matching(r"\d{1,5}")),
    "targetType": text(),
}

DOMAIN: Final[Fields] = {
    "name": text(required=True, autonamed=True),
    "description": text(),
    "metadata": text(replaces=False, implemented=False),
    "vcpu": whole(replaces=True, default=1),
    "memory": whole(replaces=True, default=512),
    "firmware": text(implemented=False),
    "type": text(default="kvm"),
    "nvram": objects(
        Kind.LIST,
        {"file": text(computed=True), "template": text(computed=True)},
        computed=True,
        single=True,
        implemented=False,
    ),
    "running": flag(default=True),
    "cloudinit": text(replaces=False),
    "coreosIgnition": text(default="", offered=""),
    "fwCfgName": text(default="opt/com.coreos/config"),
    "filesystems": objects(Kind.LIST, {}, implemented=False),
    "disks": objects(Kind.LIST, DISK),
    "networkInterfaces": objects(Kind.LIST, INTERFACE, replaces=False),
    "graphics": objects(Kind.LIST, {}, single=True, implemented=False),
    "video": objects(Kind.LIST, {}, replaces=False, single=True, implemented=False),
    "consoles": objects(Kind.LIST, CONSOLE, replaces=False),
    "cpu": objects(
        Kind.LIST, {"mode": text(replaces=False, computed=True)}, computed=True, single=True
    ),
    "autostart": flag(computed=True),
    "machine": text(replaces=False, computed=True),
    "arch": text(replaces=False, computed=True),
    "bootDevices": objects(Kind.LIST, {}, replaces=False, implemented=False),
    "emulator": text(replaces=False, computed=True),
    "kernel": text(replaces=False),
    "initrd": text(replaces=False),
    "cmdlines": maps(),
    "qemuAgent": flag(default=False, offered=False),
    "tpm": objects(Kind.LIST, {}, replaces=False, single=True, implemented=False),
    "xml": objects(Kind.LIST, {"xslt": text()}, replaces=False, single=True),
}
"""Properties that take effect only when a domain is made change nothing in place: so it is with
the official plugin, for example with `machine`, `kernel` and `networkInterfaces`."""
