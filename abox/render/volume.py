"""The stylesheet that makes a new volume an overlay of an image outside of its pool."""

from __future__ import annotations

from xml.etree import ElementTree

_XSL = "http://www.w3.org/1999/XSL/Transform"
FORMATS = ("qcow2", "raw")


def render_overlay_stylesheet(path: str, image_format: str) -> str:
    """XSLT for pulumi-libvirt's volume: it stays as it is, with a base beneath.

    The plugin itself takes only volumes of a pool as a base. An image that several sandboxes or
    nobody but the user owns belongs to none.

    Args:
        path: absolute path of the base.
        image_format: qcow2 or raw, written down so that nobody guesses it from the content.
    Raises: ValueError if the path isn't absolute or holds control characters.
    """
    if not path.startswith("/") or not path.isprintable():
        raise ValueError(f"{path!r}: an absolute path without control characters")
    if image_format not in FORMATS:
        raise ValueError(f"{image_format!r}: one of {', '.join(FORMATS)}")
    ElementTree.register_namespace("xsl", _XSL)
    sheet = ElementTree.Element(f"{{{_XSL}}}stylesheet", version="1.0")
    template = _xsl(sheet, "template", match="/volume")
    copied = _xsl(template, "copy")
    _xsl(copied, "copy-of", select="@*|node()[not(self::backingStore)]")
    base = ElementTree.SubElement(copied, "backingStore")
    ElementTree.SubElement(base, "path").text = path
    ElementTree.SubElement(base, "format", type=image_format)
    return ElementTree.tostring(sheet, encoding="unicode") + "\n"


def _xsl(parent: ElementTree.Element, name: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.SubElement(parent, f"{{{_XSL}}}{name}", attributes)
