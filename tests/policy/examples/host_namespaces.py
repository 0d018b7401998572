"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, UNKNOWN, container

PASSING = {
    "own": container(),
    "missing": container(networkMode=ABSENT),
    "joined pod": container(role="dns", networkMode="container:0123", networksAdvanced=ABSENT),
    "unknown in preview": container(role="dns", networkMode=UNKNOWN),
    "private ipc": container(ipcMode="private"),
}
FAILING = {
    "network": container(networkMode="host"),
    "processes": container(pidMode="host"),
    "shared memory": container(ipcMode="host"),
    "users": container(usernsMode="host"),
    "control groups": container(cgroupnsMode="host"),
    "any container": container(role=None, networkMode="host"),
}
