"""Version of abox."""

VERSION = "0.1.0"
