"""The command predict: scores of items under a model."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from ranksvm._contents import SCORES
from ranksvm.cli.columns import score_items
from ranksvm.cli.inputs import only_one_stdin, read_with_model, without_missing
from ranksvm.cli.options import DataOptions, Force, command, examples
from ranksvm.cli.output import UsageProblem
from ranksvm.cli.write import check_output, open_output


@command(
    epilog=examples("ranksvm predict model.safetensors test.txt -o scores.txt"),
    data=DataOptions,
)
def app(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model file (ranksvm or SVM^rank).")
    ],
    files: Annotated[list[str], typer.Argument(metavar="DATA", help="Items to score.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="File to write the scores to.")
    ] = "-",
    force: Force = False,
    trec_run: Annotated[
        bool, typer.Option("--trec-run", help="Write a TREC run instead of one score per line.")
    ] = False,
    tag: Annotated[str, typer.Option(help="Name of the TREC run.")] = "ranksvm",
    *,
    data: DataOptions,
) -> None:
    """Score items: one number per line, in the order of the data, or a TREC run."""
    only_one_stdin(model, *files)
    check_output(output, [model, *files], SCORES, force=force)
    data = without_missing(data)
    if trec_run and (not tag or len(tag.split()) != 1):
        raise UsageProblem(f"--tag {tag!r}: a tag is one word")
    found, items = read_with_model(model, files, data, comments=trec_run)
    scores = score_items(found, items, data.jobs)
    with open_output(output) as file:
        if not trec_run:
            file.write("".join(f"{score!r}\n" for score in scores.tolist()).encode())
            return
        from ranksvm.data.trec_writer import write_run

        names = items.docids or [None] * len(scores)
        docids = [str(number) if name is None else name for number, name in enumerate(names, 1)]
        qid = items.qid if items.qid is not None else np.zeros(len(scores), dtype=np.int64)
        write_run(file, qid, docids, scores, tag=tag)
