"""Entry point of the plugin: the engine starts this folder with its address as the argument."""

import sys
from pathlib import Path

# The folder of the plugin itself would make its modules importable under second names.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from provider.server import main  # noqa: E402  (needs the path above)

if __name__ == "__main__":
    main(sys.argv[1:])
