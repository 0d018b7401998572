"""Entry of `python -m cli`; the installed `abox` command calls the same function."""

from cli.main import main

if __name__ == "__main__":
    main()
