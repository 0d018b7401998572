"""The program: read the stack's configuration, build one sandbox, export its outputs."""

import os
from pathlib import Path

import pulumi
from pulumi.runtime import is_config_secret

from abox.errors import AboxError
from abox.host_state import state_dir
from abox.settings import VM, parse_settings
from components.hypervisor import host_acceleration
from components.images import read_image_ids, read_machine
from components.resolvers import host_resolvers
from components.sandbox import Sandbox, SandboxArgs

stack = pulumi.get_stack()
config = pulumi.Config("abox")
try:
    settings = parse_settings(
        stack,
        config.get_object("sandbox"),
        config.get_object("secrets") or {},
        secrets_encrypted=is_config_secret(config.full_key("secrets")),
    )
    root = Path(__file__).parent
    is_vm = settings.backend == VM
    args = SandboxArgs(
        settings=settings,
        images=read_image_ids(root, ["gateway"] if is_vm else ["gateway", "agent"]),
        upstream_dns=settings.upstream_dns or host_resolvers(),
        state_dir=state_dir(os.environ),
        machine=read_machine(root, settings.vm, host_acceleration()) if is_vm else None,
    )
except AboxError as error:
    raise pulumi.RunError(str(error)) from None

for name, value in Sandbox(stack, args).outputs.items():
    pulumi.export(name, value)
