"""The engine's volumes of a sandbox."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi_docker as docker
from pulumi import ResourceOptions

from abox.naming import LABEL_ROLE, LABEL_SANDBOX


def make_volume(
    name: str,
    *,
    sandbox: str,
    purpose: str,
    driver_opts: Mapping[str, str] | None = None,
    opts: ResourceOptions | None = None,
) -> docker.Volume:
    """A volume of ``sandbox``, labelled with what it is for."""
    return docker.Volume(
        name,
        labels=[
            docker.VolumeLabelArgs(label=LABEL_ROLE, value=purpose),
            docker.VolumeLabelArgs(label=LABEL_SANDBOX, value=sandbox),
        ],
        driver_opts=driver_opts or None,
        opts=opts,
    )
