"""Stand-ins for the official provider plugins, for where those can't be downloaded.

They take the same types, properties, defaults and ids as the official ones and are installed
under the same names and versions. `bridge` holds the rules by which the official Docker plugin,
a bridge to a provider of another system, answers; `docker` and `command` are the two stand-ins.
"""
