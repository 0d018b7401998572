"""`xml.xslt`: the XML of a resource through a stylesheet of the program's own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final
from xml.etree import ElementTree as ET

from toolchain.plugins.bridge.fields import Field, Kind, objects, text
from toolchain.plugins.bridge.resource import ResourceError, values
from toolchain.plugins.libvirt.programs import run
from toolchain.plugins.wire_values import Value

TIMEOUT_S: Final = 30.0


def xml_field(*, replaces: bool) -> Field:
    """The property `xml`, whose stylesheet forces a new resource when it changes."""
    return objects(Kind.LIST, {"xslt": text()}, replaces=replaces, single=True)


def transformed(document: ET.Element, wanted: Mapping[str, Value]) -> str:
    """The document as text, changed by the stylesheet if there is one.

    Raises:
        ResourceError: the stylesheet fails, or xsltproc isn't there.
    """
    plain = ET.tostring(document, encoding="unicode")
    stylesheet = str((values(wanted, "xml") or {}).get("xslt") or "").strip()
    if not stylesheet:
        return plain
    with ExitStack() as stack:
        names = []
        for content in (stylesheet, plain):
            file = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="abox-xslt-"))
            file.write(content)
            file.flush()
            names.append(file.name)
        try:
            # The stylesheet reads and writes nothing but what it is given.
            return run(
                ["xsltproc", "--nomkdir", "--nonet", "--nowrite", *names], timeout_s=TIMEOUT_S
            )
        except ResourceError as error:
            raise ResourceError(f"error applying XSLT stylesheet: {error}") from error


def child(
    parent: ET.Element, tag: str, content: str | None = None, **attributes: str
) -> ET.Element:
    """Add an element."""
    added = ET.SubElement(parent, tag, attributes)
    added.text = content
    return added
