"""``probe serve HOST PORT`` or ``probe VERB ARGUMENT...``."""

import sys

from tests.cases.probe.serve import serve
from tests.cases.probe.verbs import VERBS

if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    if verb == "serve":
        sys.exit(serve(arguments[0], int(arguments[1])))
    sys.exit(VERBS[verb](*arguments))
