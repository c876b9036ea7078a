"""``python -m ranksvm`` is the command ``ranksvm``."""

from __future__ import annotations

from ranksvm.cli import main

if __name__ == "__main__":
    main()
