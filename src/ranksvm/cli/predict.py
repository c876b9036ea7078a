"""The command predict: scores of items under a model."""

from __future__ import annotations

from itertools import chain
from typing import Annotated

import numpy as np
import typer

from ranksvm._contents import SCORES
from ranksvm.cli.columns import score_blocks
from ranksvm.cli.inputs import only_one_stdin, read_with_model
from ranksvm.cli.options import Force, ItemOptions, by_default, command, examples
from ranksvm.cli.output import UsageProblem
from ranksvm.cli.write import check_output, open_output

BLOCK = 100_000  # scores that are written at a time


@command(
    epilog=examples("ranksvm predict model.safetensors test.txt -o scores.txt"),
    data=ItemOptions,
)
def app(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model file (ranksvm or SVM^rank).")
    ],
    files: Annotated[list[str], typer.Argument(metavar="DATA", help="Items to score.")],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=f"File to write the scores to. {by_default('standard output')}",
        ),
    ] = None,
    force: Force = False,
    trec_run: Annotated[
        bool, typer.Option("--trec-run", help="Write a TREC run instead of one score per line.")
    ] = False,
    tag: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Name of the TREC run. {by_default('ranksvm')}"),
    ] = None,
    *,
    data: ItemOptions,
) -> None:
    """Score items: one number per line, in the order of the data, or a TREC run."""
    if force and output is None:
        raise UsageProblem("--force needs --output")
    if tag is not None and not trec_run:
        raise UsageProblem("--tag needs --trec-run")
    if tag is not None and len(tag.split()) != 1:
        raise UsageProblem(f"--tag {tag!r}: a tag is one word")
    output = "-" if output is None else output
    only_one_stdin(model, *files)
    check_output(output, [model, *files], SCORES, force=force)
    found, items = read_with_model(model, files, data, comments=trec_run, queries=trec_run)
    blocks = score_blocks(found, items, data.jobs)
    first = next(blocks)  # what cannot be scored at all is an error before anything is written
    with open_output(output) as file:
        if not trec_run:
            for scores in chain([first], blocks):
                for begin in range(0, len(scores), BLOCK):
                    part = scores[begin : begin + BLOCK].tolist()
                    file.write("".join(f"{score!r}\n" for score in part).encode())
            return
        from ranksvm.data.trec_writer import write_run

        scores = first  # a run needs document ids, which are read with all data in memory
        names = items.docids or [None] * len(scores)
        docids = [str(number) if name is None else name for number, name in enumerate(names, 1)]
        qid = items.qid if items.qid is not None else np.zeros(len(scores), dtype=np.int64)
        write_run(file, qid, docids, scores, tag=tag or "ranksvm")
