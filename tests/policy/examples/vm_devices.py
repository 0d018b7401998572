"""Examples of the rule of the same name."""

from abox.render.domain import DomainSpec, render_stylesheet
from tests.policy.examples.declare import domain, sheet

WATCHED = render_stylesheet(DomainSpec(sandbox="dev", filter="f", monitor="/run/port"))


def channel(source: str, target: str, kind: str = "unix") -> str:
    """A stylesheet whose domain has one channel."""
    return sheet(f"<domain><channel type='{kind}'>{source}{target}</channel></domain>")


CONNECT = "<source mode='connect' path='/run/port'/>"
PORT = "<target type='virtio' name='org.abox.monitor'/>"

PASSING = {
    "the project's": domain(),
    "empty": domain(filesystems=[], tpm=None, disks=[]),
    "monitor": domain(xslt=WATCHED),
    "its channel": domain(xslt=channel(CONNECT, PORT)),
}
FAILING = {
    "no xml": domain(xslt="<"),
    "folder": domain(filesystems=[{"source": "/", "target": "host"}]),
    "tpm": domain(tpm={"backendType": "passthrough"}),
    "block device": domain(disks=[{"blockDevice": "/dev/sda"}]),
    "disk as text": domain(disks=["/dev/sda"]),
    "macvtap": domain(networkInterfaces=[{"macvtap": "eth0"}]),
    "passthrough": domain(networkInterfaces=[{"passthrough": "eth0"}]),
    "element": domain(xslt=sheet("<domain><hostdev mode='subsystem'/></domain>")),
    "shared memory": domain(xslt=sheet("<domain><shmem name='x'/></domain>")),
    "clipboard": domain(xslt=channel("", PORT, "spicevmc")),
    "channel that listens": domain(xslt=channel(CONNECT.replace("connect", "bind"), PORT)),
    "channel of another name": domain(xslt=channel(CONNECT, PORT.replace("abox", "qemu"))),
    "channel to slirp": domain(xslt=channel(CONNECT, PORT.replace("virtio", "guestfwd"))),
    "channel without a source": domain(xslt=channel("", PORT)),
    "shared folder": domain(xslt=sheet("<domain><filesystem/></domain>")),
}
