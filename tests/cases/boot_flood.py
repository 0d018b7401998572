"""A guest that floods from the beginning of its system's life: the machine is off, then on."""

from __future__ import annotations

import json

from tests import host
from tests.cases.sandbox import PROBE, Sandbox
from tests.cases.seat import put

ARCHIVE = "/var/lib/abxt-flood.pyz"
UNIT = "abxt-flood.service"
COUNT = "/run/abxt-flood"
"""Where the flood notes how many frames it sent."""
BOOT_S = 600
"""A guest lets nobody in for longer: it is broken."""
_UNIT = """\
[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
ExecStart=/bin/sh -c 'until ip link set eth0 up; do sleep 0.01; done; \
exec python3 {archive} boot-flood {count} {frames}'
[Install]
WantedBy=sysinit.target
"""


def flood_at_boot(sandbox: Sandbox, address: str, port: str) -> int:
    """Switch the machine off and on with a flood to a place in it; returns frames sent.

    The flood begins before the system mounts or configures anything.
    """
    base = {"device": "eth0", "to": address, "port": int(port), "src_ip": sandbox.agent_address,
            "src_mac": sandbox.seat.mac()}  # fmt: skip
    ways = (sandbox.gateway_mac(), "ff:ff:ff:ff:ff:ff")
    frames = [{**base, "proto": p, "next_mac": way} for p in ("tcp", "udp") for way in ways]
    unit = _UNIT.format(archive=ARCHIVE, count=COUNT, frames=json.dumps(frames).encode().hex())
    sandbox.copy_probe()
    put(sandbox.seat, f"/tmp/{UNIT}", unit.encode())  # noqa: S108  # in the guest
    _root(sandbox, f"cp {PROBE} {ARCHIVE} && cp /tmp/{UNIT} /etc/systemd/system/ && "
          f"systemctl -q enable {UNIT} && sync")  # fmt: skip
    try:
        _off_and_on(sandbox)
        return int(_root(sandbox, f"cat {COUNT}") or 0)
    finally:
        _root(sandbox, f"systemctl -q disable --now {UNIT}; rm {ARCHIVE}; sync")
        sandbox.attach()


def _off_and_on(sandbox: Sandbox) -> None:
    domain = str(sandbox.facts.outputs["domain"])
    for verb in ("destroy", "start"):
        host.run(["virsh", "-q", "-c", "qemu:///system", verb, domain])
    host.wait_until(
        lambda: host.run(sandbox.seat.inside(["true"]), check=False, timeout_s=60).code == 0,
        timeout_s=BOOT_S,
        describe=lambda: "no login after the machine was switched on",
        every_s=1,
    )


def _root(sandbox: Sandbox, script: str) -> str:
    return host.run(sandbox.seat.strongest(["sh", "-c", script])).stdout.strip()
