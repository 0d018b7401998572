"""Examples of the rule of the same name."""

from tests.policy.examples.declare import container

PASSING = {"missing": container(), "empty": container(devices=[], gpus="")}
FAILING = {
    "device": container(devices=[{"hostPath": "/dev/kvm"}]),
    "text": container(devices=["/dev/kvm"]),
    "graphics": container(gpus="all"),
    "any container": container(role=None, devices=[{"hostPath": "/dev/fuse"}]),
}
