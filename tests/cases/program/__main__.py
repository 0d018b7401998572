"""The project's program with one more resource, for cases that add one.

``ABXT_ADD_RESOURCE`` holds it as JSON: ``kind`` (container or network), ``network``, ``joins`` and
properties of the resource in the words of pulumi-docker.
"""

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any, cast

import pulumi
import pulumi_docker as docker

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from components.images import read_image_ids  # noqa: E402
from components.network import Network  # noqa: E402

SANDBOX_NETWORK = "{sandbox_network}"
CONTAINER = "docker:index/container:Container"

networks: list[Network] = []
made = Network.__init__


def remember(self: Network, *args: Any, **kwargs: Any) -> None:
    """Build the sandbox's network and keep it for the added resource."""
    made(self, *args, **kwargs)
    networks.append(self)


def add_container(asked: dict[str, Any]) -> None:
    """A container that is as hard as the project's own but for what is named."""
    network = asked.pop("network", SANDBOX_NETWORK)
    name = networks[0].internal_id if network == SANDBOX_NETWORK else network
    properties: dict[str, Any] = {
        "image": read_image_ids(ROOT)["agent"],
        "user": "1000:1000",
        "command": ["sleep", "infinity"],
        "networks_advanced": [{"name": name}],
        "capabilities": {"drops": ["ALL"]},
        "security_opts": ["no-new-privileges:true"],
        "read_only": True,
        "privileged": False,
        "memory": 256,
        "memory_swap": 256,
        "restart": "no",
        **asked,
    }
    docker.Container("abxt-added", **properties)


def add_network(asked: dict[str, Any]) -> None:
    """A network; with ``joins: agent`` the agent is on it too."""
    joins = asked.pop("joins", None)
    asked.setdefault("internal", True)
    extra = docker.Network(asked.pop("name", "abxt-extra"), **asked)

    def join(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if args.type_ != CONTAINER or not args.name.endswith(f"-{joins}"):
            return None
        legs: Any = [*cast(list[Any], args.props.get("networksAdvanced")), {"name": extra.name}]
        return pulumi.ResourceTransformResult({**args.props, "networksAdvanced": legs}, args.opts)

    if joins:
        pulumi.runtime.register_resource_transform(join)


asked = json.loads(os.environ["ABXT_ADD_RESOURCE"])
kind = asked.pop("kind")
Network.__init__ = remember  # type: ignore[method-assign]
if kind == "network":
    add_network(asked)
runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")
if kind == "container":
    add_container(asked)
