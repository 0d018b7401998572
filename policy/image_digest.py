"""Images are named by digest."""

from __future__ import annotations

import re

from pulumi_policy import ResourceValidationPolicy

from policy.resources import CONTAINER, MANDATORY, ReportViolation, ResourceValidationArgs

DIGEST = re.compile(r"(?:[a-z0-9][a-zA-Z0-9._:/-]{0,254}@)?sha256:[0-9a-f]{64}")


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a container whose image isn't named by digest."""
    if args.resource_type != CONTAINER:
        return
    image = args.props.get("image")
    if not isinstance(image, str) or not DIGEST.fullmatch(image):
        report(f"image {image!r}: write name@sha256:<64 hex digits> or sha256:<64 hex>", args.urn)


image_pinned_by_digest = ResourceValidationPolicy(
    name="image-pinned-by-digest",
    description="A tag can move after review; a digest can't.",
    validate=validate,
    enforcement_level=MANDATORY,
)
