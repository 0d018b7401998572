"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, container


def _bind(source: str) -> dict[str, str]:
    return {"type": "bind", "source": source, "target": "/work"}


def _host(path: str) -> dict[str, str]:
    return {"hostPath": path, "containerPath": "/work"}


PASSING = {
    "volume": container(),
    "missing": container(volumes=ABSENT),
    "project folder": container(volumes=[_host("/srv/project")]),
    "bound project folder": container(mounts=[_bind("/home/user/project")]),
    "named volume": container(mounts=[{"type": "volume", "source": "data", "target": "/data"}]),
    "verdict log": container(
        role="control", volumes=[_host("/var/lib/abox/sandboxes/dev/logs/verdicts")]
    ),
    "tmpfs": container(mounts=[{"type": "tmpfs", "target": "/work"}]),
}
FAILING = {
    "engine's socket": container(volumes=[_host("/var/run/docker.sock")]),
    "engine's socket elsewhere": container(volumes=[_host("/run/docker.sock")]),
    "bound socket": container(mounts=[_bind("/var/run/docker.sock")]),
    "spelled with dots": container(mounts=[_bind("/var/./run//docker.sock")]),
    "host": container(volumes=[_host("/")]),
    "home": container(volumes=[_host("/root")]),
    "a user's home": container(volumes=[_host("/home/user")]),
    "keys": container(volumes=[_host("/home/user/.ssh")]),
    "settings": container(mounts=[_bind("/etc")]),
    "kernel": container(mounts=[_bind("/proc")]),
    "engine's state": container(mounts=[_bind("/var/lib/docker/volumes")]),
    "above a closed folder": container(mounts=[_bind("/var")]),
    "source missing": container(mounts=[{"type": "bind", "target": "/work"}]),
    "named pipe": container(mounts=[{"type": "npipe", "source": "x", "target": "/work"}]),
    "verdict log in the agent": container(
        volumes=[_host("/var/lib/abox/sandboxes/dev/logs/verdicts")]
    ),
    "beside the verdict log": container(role="control", volumes=[_host("/var/lib/abox/leases")]),
    "above the verdict log": container(
        role="control", volumes=[_host("/var/lib/abox/sandboxes/dev/logs")]
    ),
    "of another container": container(volumes=[{"fromContainer": "control"}]),
    "any container": container(role=None, volumes=[_host("/")]),
}
