"""Labels: a set of objects for Pulumi, a map for Docker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolchain.plugins.wire_values import Value


def labels_to_map(labels: Sequence[Mapping[str, Value]] | None) -> dict[str, str]:
    """Labels as Docker takes them."""
    return {str(item["label"]): str(item["value"]) for item in labels or []}


def labels_of(found: Mapping[str, str] | None) -> list[dict[str, str]]:
    """Labels as Pulumi has them."""
    return [{"label": key, "value": value} for key, value in (found or {}).items()]
