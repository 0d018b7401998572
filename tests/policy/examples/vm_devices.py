"""Examples of the rule of the same name."""

from tests.policy.examples.declare import domain, sheet

PASSING = {"the project's": domain(), "empty": domain(filesystems=[], tpm=None, disks=[])}
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
    "shared folder": domain(xslt=sheet("<domain><filesystem/></domain>")),
}
