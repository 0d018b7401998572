"""What a guest of the project's own image runs before all else: all that it is told, in a second.

cloud-init would do the same from the documents beside it on the seed, but its Python takes an
emulated processor half a minute. So it is left with what only it can do: the user's own packages,
files and commands. Every value stands quoted in the script, and few programs are started.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from abox.agent_environment import BUNDLE, JAVA_TRUST_STORE, TRUST_DIR, agent_environment
from abox.render.cloud_init import (
    INTERFACE,
    NO_PASSWORD,
    SUDO,
    WORKSPACE,
    WORKSPACE_SCRIPT,
    GuestFile,
    GuestSpec,
    guest_hostname,
    instance_id,
    render_java_store,
    sensor_files,
    system_files,
    trust_sources,
)
from abox.render.heartbeat import UNIT
from abox.vm_settings import USER

HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
STAMP = "/var/lib/abox/told"
"""Holds the id of the instance whose files were written; they aren't written over at a reboot."""

DONE = "/run/abox/told"
"""Keeps cloud-init and networkd from starting: nothing is left for them."""


def render_boot_script(spec: GuestSpec) -> str:
    """A POSIX shell script for root; equal specs give equal text."""
    identity = instance_id(spec)
    parts = [
        "set -eu",
        "umask 022",
        f"mkdir -p {_folders(spec)}",
        *_at_every_boot(spec),
        "told=",
        f"[ ! -e {STAMP} ] || read -r told < {STAMP}",
        f'if [ "$told" != {identity} ]; then',
        *_once(spec),
        f"echo {identity} > {STAMP}",
        "fi",
        'wait "$workspace"',
        *([f"chown -- {shlex.quote(spec.user)}: {WORKSPACE}"] if spec.user != USER else []),
    ]
    if spec.monitor:
        # Not enabled: a guest that is told of no port, on the same disk, then has no sensor.
        parts += [*map(_written, sensor_files(spec)), f"systemctl --no-block start {UNIT}"]
    own = (spec.packages, spec.files, spec.commands, spec.extra_files, spec.extra_commands)
    if not any(own):
        parts.append(f": > {DONE}")
    return "".join(f"{part}\n" for part in parts)


def _folders(spec: GuestSpec) -> str:
    """All folders that something is written to."""
    files = (*system_files(spec), *trust_sources(spec), *sensor_files(spec))
    paths = [file.path for file in files]
    paths += [HOST_KEY, STAMP, DONE, JAVA_TRUST_STORE]
    return " ".join(sorted({shlex.quote(path.rpartition("/")[0]) for path in paths}))


def _at_every_boot(spec: GuestSpec) -> Iterator[str]:
    """What doesn't lie on the root disk."""
    yield _write("/proc/sys/kernel/hostname", guest_hostname(spec.sandbox))
    address = f"link set {INTERFACE} up\naddress replace {spec.address} dev {INTERFACE}\n"
    yield f"printf %s {shlex.quote(address)} | ip -batch -"
    # The longest part: beside all others.
    yield f"{{ {WORKSPACE_SCRIPT}; }} & workspace=$!"


def _once(spec: GuestSpec) -> Iterator[str]:
    """Files, account and trust."""
    yield _write("/etc/hostname", f"{guest_hostname(spec.sandbox)}\n")
    yield from (_written(file) for file in (*system_files(spec), *trust_sources(spec)))
    yield f"(umask 077; {_write(HOST_KEY, spec.host_key)})"
    yield _write(f"{HOST_KEY}.pub", f"{spec.host_key_public}\n")
    yield from _account(spec)
    yield from _trust(spec)
    # Services of this boot; those of later ones have it from the files.
    pairs = (f"{name}={value}" for name, value in agent_environment(spec.proxy_url).items())
    yield f"systemctl set-environment {' '.join(map(shlex.quote, pairs))}"


def _account(spec: GuestSpec) -> Iterator[str]:
    """Its owner logs in with the keys, and may become root."""
    user = shlex.quote(spec.user)
    keys = "".join(f"{key}\n" for key in spec.authorized_keys)
    yield (f"id -u {user} > /dev/null 2>&1 || useradd -m -s /bin/bash -p '{NO_PASSWORD}' {user}")
    # The shell itself looks up the home: of a name that was matched, so that it needs no quotes.
    yield f"home=~{user}"
    yield 'mkdir -p -m 0700 "$home/.ssh"'
    yield f'printf %s {shlex.quote(keys)} > "$home/.ssh/authorized_keys"'
    yield f'chown -R -- {user}: "$home/.ssh"'
    yield f"(umask 0337; {_write('/etc/sudoers.d/50-abox', f'{spec.user} {SUDO}' + chr(10))})"


def _trust(spec: GuestSpec) -> Iterator[str]:
    """The authorities in every form; a store that held others before is made anew."""
    yield f"printf %s {render_java_store(spec)} | base64 -d > {JAVA_TRUST_STORE}"
    yield 'if [ -n "$told" ]; then update-ca-certificates --fresh > /dev/null; else'
    for source in trust_sources(spec):
        yield f"printf %s {shlex.quote(source.content)} >> {BUNDLE}"
        hashed = f"{TRUST_DIR}/$(openssl x509 -hash -noout -in {source.path}).0"
        yield f'ln -sf {source.path} "{hashed}"'
    yield "fi"


def _written(file: GuestFile) -> str:
    return _write(file.path, file.content)


def _write(path: str, content: str) -> str:
    return f"printf %s {shlex.quote(content)} > {shlex.quote(path)}"
