"""The command demo: two small sets, from data to models."""

from __future__ import annotations

from typing import Annotated

import typer

from ranksvm._files import STDOUT, naming
from ranksvm.cli.options import command, examples


@command(epilog=examples("ranksvm demo --queries 300"))
def app(
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    queries: Annotated[
        int, typer.Option(min=30, help="Number of queries of the LETOR-like set.")
    ] = 600,
) -> None:
    """Train on two small sets and show what was learned."""
    from ranksvm import demo

    with naming(STDOUT):
        demo.run(seed, queries)
