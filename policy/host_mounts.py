"""No container sees the host's sockets, homes, keys or system folders.

One folder of abox's own is mounted: the verdict log, in the container that writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_policy import ResourceValidationPolicy

from abox.host_paths import check_source
from abox.host_state import is_verdict_log
from abox.naming import Role
from abox.refusals import RefusedError
from policy.resources import (
    CONTAINER,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    items,
    role_of,
)


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report every mount that gives the host away."""
    if args.resource_type != CONTAINER:
        return
    for volume in items(args.props, "volumes"):
        if volume.get("fromContainer"):
            report("volumes of another container are mounted: name each volume", args.urn)
    for source in _sources(args.props):
        if role_of(args.props) == Role.CONTROL and is_verdict_log(source):
            continue
        try:
            check_source(source)
        except RefusedError as refused:
            report(f"{source!r} is mounted: {refused.why}; {refused.remedy}", args.urn)


def _sources(props: Mapping[str, Any]) -> Iterator[str]:
    for volume in items(props, "volumes"):
        if source := volume.get("hostPath"):
            yield str(source)
    for mount in items(props, "mounts"):
        if mount.get("type", "volume") not in ("volume", "tmpfs"):
            yield str(mount.get("source"))


no_host_mounts = ResourceValidationPolicy(
    name="no-host-mounts",
    description="Whoever reaches the engine's socket or the host's own folders owns the host.",
    validate=validate,
    enforcement_level=MANDATORY,
)
