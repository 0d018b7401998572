"""Entry point of the libvirt stand-in."""

from __future__ import annotations

import sys

from toolchain.plugins.libvirt.provider import LibvirtProvider
from toolchain.plugins.server import serve

if __name__ == "__main__":
    sys.exit(serve(LibvirtProvider()))
