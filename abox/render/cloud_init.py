"""What a VM is told at its first boot: cloud-init's documents, in the form of NoCloud.

The guest gets its address, its only resolver, the proxy, the sandbox's authority, its user and its
own host key from here, so that nothing is asked for over the network and the first login needs no
trust. All of it is data that a YAML library writes: no value can become a key or a command.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface
from typing import Any

import yaml

from abox.agent_environment import (
    JAVA_TRUST_STORE,
    SANDBOX_CA,
    agent_environment,
)
from abox.naming import LABEL_SANDBOX
from abox.render.heartbeat import SCRIPT, SCRIPT_PATH, UNIT, UNIT_PATH, UNIT_TEXT
from abox.render.java_keystore import render_java_keystore

INTERFACE = "eth0"
"""Name of the VM's only network interface."""

WORKSPACE, WORKSPACE_DISK, WORKSPACE_LABEL = "/workspace", "/dev/vdb", "workspace"
"""The second disk holds one file system, made at the first boot and never again."""

GUEST_ID = 1000
"""User and group that a new workspace belongs to: the first account of every common image."""

SSHD_CONFIG = """\
# Written by abox: the host logs in with the stack's key, and the guest proves who it is.
HostKey /etc/ssh/ssh_host_ed25519_key
KexAlgorithms curve25519-sha256
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
X11Forwarding no
UseDNS no
UsePAM no
"""
"""Without PAM a login is a second faster under emulation; then sshd itself sets the variables."""

NO_PASSWORD = "*"  # noqa: S105  # the opposite of one
"""Hash that no password has; unlike a lock it leaves keys alone."""

SUDO = "ALL=(ALL) NOPASSWD:ALL"
"""The guest is the sandbox: who is root in it is no nearer to the host."""

CA_SOURCES = "/usr/local/share/ca-certificates"
"""Where Debian takes authorities from when it makes its trust store anew, one a file."""

WORKSPACE_SCRIPT = (
    f"blkid {WORKSPACE_DISK} >/dev/null || mkfs.ext4 -q -L {WORKSPACE_LABEL} "
    f"-E nodiscard,lazy_itable_init=1,root_owner={GUEST_ID}:{GUEST_ID} {WORKSPACE_DISK}; "
    f"mkdir -p {WORKSPACE}; mountpoint -q {WORKSPACE} || "
    f"mount -o nodev,nosuid {WORKSPACE_DISK} {WORKSPACE}"
)
"""An empty disk gets its file system; what is there already stays."""

_SYSCTLS = """\
net.ipv6.conf.all.disable_ipv6 = 1
net.ipv6.conf.default.disable_ipv6 = 1
net.ipv4.ping_group_range = 0 2147483647
"""
"""No IPv6; echo requests without rights, as in the agent container."""


@dataclass(frozen=True, kw_only=True)
class GuestFile:
    """A file of the user's own in the guest."""

    path: str
    content: str
    mode: str = "0644"
    """Octal digits."""
    owner: str = "root:root"


@dataclass(frozen=True, kw_only=True)
class GuestSpec:
    """What the guest is told."""

    sandbox: str
    user: str
    """Name of the account that `abox exec` and `abox shell` use."""
    authorized_keys: tuple[str, ...]
    """Public keys that log in, one line each."""
    host_key: str
    """The guest's private ed25519 host key, in OpenSSH's form."""
    host_key_public: str
    mac: str
    address: IPv4Interface
    """The guest's address with the length of its network."""
    gateway: str
    """Address of the gateway pod, the only resolver."""
    proxy_url: str
    ca_certificate: str
    """The sandbox's authority, PEM."""
    trusted_cas: tuple[str, ...] = ()
    """The stack's further authorities, PEM: what isn't intercepted needs them."""
    prepared: bool = True
    """Whether the image is the project's own, whose places are known; else cloud-init's modules
    do by the rules of the distribution what is written directly here, and take longer."""
    monitor: bool = False
    """Whether the machine has a monitor port, which the guest writes heartbeats to."""
    packages: tuple[str, ...] = ()
    files: tuple[GuestFile, ...] = ()
    commands: tuple[str, ...] = ()
    """Shell commands that root runs at the end of the first boot."""
    extra_files: tuple[GuestFile, ...] = ()
    """Files of the sandbox's own besides those that every guest has."""
    extra_commands: tuple[str, ...] = ()
    """Commands of the sandbox's own, before the user's."""


def render_user_data(spec: GuestSpec) -> str:
    """cloud-config: accounts, keys, proxy and trust, disks, the user's own additions."""
    document: dict[str, Any] = {
        "hostname": guest_hostname(spec.sandbox),
        "ssh_pwauth": False,
        "disable_root": True,
        "ssh_deletekeys": True,
        "ssh_genkeytypes": [],
        "ssh_keys": {"ed25519_private": spec.host_key, "ed25519_public": spec.host_key_public},
        "users": [_user(spec)],
        "write_files": [
            *(_file(each) for each in (*system_files(spec), *spec.extra_files)),
            # The project's own image has them from the host's script, at every boot: there the
            # port comes and goes without a first boot, which would run the user's commands again.
            *(_file(each) for each in ([] if spec.prepared else sensor_files(spec))),
            *_trust_files(spec),
            *map(_own_file, spec.files),
        ],
        # At every boot, and without a look into the guest's own list of mounts.
        "bootcmd": [["sh", "-c", WORKSPACE_SCRIPT]],
        "runcmd": [*_system_commands(spec), *spec.extra_commands, *spec.commands],
    }
    if spec.prepared:
        # The image knows its package sources; cloud-init would write another distribution's.
        document["apt"] = {"preserve_sources_list": True}
    else:
        document["ca_certs"] = {"trusted": [*spec.trusted_cas, spec.ca_certificate]}
    if spec.packages:
        document |= {"package_update": True, "packages": list(spec.packages)}
    return f"#cloud-config\n{_yaml(document)}"


def _own_file(file: GuestFile) -> dict[str, Any]:
    """A file of the user's: root's are there before the packages, which may need a source."""
    if file.owner in ("root", "root:root"):
        return _file(file)
    # Other owners may be made only after cloud-init's first files are written.
    return {**_file(file), "defer": True}


def render_network_config(spec: GuestSpec) -> str:
    """Version 2: one interface, one static address, no way to any other network."""
    ethernet = {
        "match": {"macaddress": spec.mac.lower()},
        "set-name": INTERFACE,
        "dhcp4": False,
        "dhcp6": False,
        "accept-ra": False,
        "addresses": [str(spec.address)],
        "nameservers": {"addresses": [spec.gateway], "search": []},
    }
    return _yaml({"version": 2, "ethernets": {INTERFACE: ethernet}})


def instance_id(spec: GuestSpec) -> str:
    """Name of what the guest is told: stays the same as long as that does."""
    told = render_user_data(spec) + render_network_config(spec)
    return f"abox-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def render_meta_data(spec: GuestSpec) -> str:
    """The instance, and whose it is."""
    return _yaml(
        {
            "instance-id": instance_id(spec),
            "local-hostname": guest_hostname(spec.sandbox),
            LABEL_SANDBOX: spec.sandbox,
        }
    )


def render_seed(spec: GuestSpec) -> dict[str, str]:
    """All documents, by the names of NoCloud's files."""
    return {
        "meta-data": render_meta_data(spec),
        "network-config": render_network_config(spec),
        "user-data": render_user_data(spec),
    }


def guest_hostname(sandbox: str) -> str:
    """The sandbox's name in the letters of a host name."""
    return sandbox.replace("_", "-")


def _user(spec: GuestSpec) -> dict[str, Any]:
    return {
        "name": spec.user,
        "shell": "/bin/bash",
        "lock_passwd": False,
        "hashed_passwd": NO_PASSWORD,
        "sudo": SUDO,
        "ssh_authorized_keys": list(spec.authorized_keys),
    }


def _file(file: GuestFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "content": file.content,
        "permissions": file.mode,
        "owner": file.owner,
    }


def system_files(spec: GuestSpec) -> tuple[GuestFile, ...]:
    """Proxy, trust, resolver and login, as files of the guest."""
    environment = agent_environment(spec.proxy_url)
    manager = _manager_config(environment)
    return (
        # Quoted, since a shell reads it as well, and options of Java's hold spaces.
        GuestFile(path="/etc/environment", content=_lines(environment, '{}="{}"')),
        GuestFile(
            path="/etc/profile.d/abox-proxy.sh", content=_lines(environment, "export {}='{}'")
        ),
        GuestFile(path="/etc/systemd/system.conf.d/50-abox.conf", content=manager),
        GuestFile(path="/etc/systemd/user.conf.d/50-abox.conf", content=manager),
        GuestFile(
            path="/etc/apt/apt.conf.d/95abox",
            content=f'Acquire::http::Proxy "{spec.proxy_url}";\n'
            f'Acquire::https::Proxy "{spec.proxy_url}";\n',
        ),
        GuestFile(
            path="/etc/hosts",
            content=f"127.0.0.1 localhost\n127.0.1.1 {guest_hostname(spec.sandbox)}\n",
        ),
        # networkd alone writes none; where resolved is, it has the resolver from the network.
        GuestFile(path="/etc/resolv.conf", content=f"nameserver {spec.gateway}\n"),
        GuestFile(path=SANDBOX_CA, content=spec.ca_certificate),
        GuestFile(
            path="/etc/ssh/sshd_config.d/50-abox.conf",
            content=f"{SSHD_CONFIG}SetEnv {_pairs(environment)}\n",
        ),
        GuestFile(path="/etc/sysctl.d/50-abox.conf", content=_SYSCTLS),
    )


def sensor_files(spec: GuestSpec) -> tuple[GuestFile, ...]:
    """The program behind the monitor port, where there is one, and its unit."""
    if not spec.monitor:
        return ()
    return (
        GuestFile(path=SCRIPT_PATH, content=SCRIPT),
        GuestFile(path=UNIT_PATH, content=UNIT_TEXT),
    )


def _trust_files(spec: GuestSpec) -> list[dict[str, Any]]:
    """Java's trust store; in the built image the boot script has made every store by now."""
    if spec.prepared:
        return []
    java = GuestFile(path=JAVA_TRUST_STORE, content="")
    return [{**_file(java), "content": render_java_store(spec), "encoding": "b64"}]


def trust_sources(spec: GuestSpec) -> tuple[GuestFile, ...]:
    """The sandbox's authority and the stack's further ones, each as a file of Debian's."""
    own = GuestFile(path=f"{CA_SOURCES}/abox.crt", content=_ended(spec.ca_certificate))
    others = (
        GuestFile(path=f"{CA_SOURCES}/abox-{number}.crt", content=_ended(certificate))
        for number, certificate in enumerate(spec.trusted_cas, start=1)
    )
    return (*others, own)


def render_java_store(spec: GuestSpec) -> str:
    """The same authorities in Java's form, in base 64."""
    trusted = "".join(source.content for source in trust_sources(spec))
    return base64.b64encode(render_java_keystore(trusted)).decode()


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _lines(environment: Mapping[str, str], form: str) -> str:
    return "".join(form.format(name, value) + "\n" for name, value in environment.items())


def _manager_config(environment: Mapping[str, str]) -> str:
    # systemd reads a percent sign as the beginning of a specifier.
    return f"[Manager]\nDefaultEnvironment={_pairs(environment).replace('%', '%%')}\n"


def _pairs(environment: Mapping[str, str]) -> str:
    return " ".join(f'"{name}={value}"' for name, value in environment.items())


def _system_commands(spec: GuestSpec) -> list[Any]:
    return [
        # cloud-init's scripts run in a service that was started before these files were written.
        "set -a; . /etc/environment; set +a",
        ["sysctl", "--quiet", "--system"],
        ["systemctl", "daemon-reload"],
        ["chown", "--", f"{spec.user}:", WORKSPACE],
        *([["systemctl", "enable", "--now", UNIT]] if spec.monitor and not spec.prepared else []),
    ]


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as they are; no aliases, which not every reader takes."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=True, width=1000)
