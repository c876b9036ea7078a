"""The command convert: data or models in another format."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from ranksvm._contents import COMPRESSED, DATA, MODEL
from ranksvm.cli.inputs import look_at, note_no_labels, read_any_model, read_data
from ranksvm.cli.options import (
    ConversionOptions,
    DataOptions,
    Force,
    command,
    examples,
    format_named,
)
from ranksvm.cli.output import UsageProblem, warn
from ranksvm.cli.write import (
    check_output,
    is_stdout,
    open_output,
    save_model,
)
from ranksvm.data.ranking_data import RankingData


@command(
    epilog=examples(
        "ranksvm convert train.csv train.txt.gz",
        "ranksvm convert train.csv train.parquet --memory 4GB",
        "ranksvm convert model.dat model.safetensors",
    ),
    data=ConversionOptions,
)
def app(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Data file or model.")],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO", help="Output file; the suffix sets the format (.dat: SVM^rank's model)."
        ),
    ],
    force: Force = False,
    *,
    data: ConversionOptions,
) -> None:
    """Convert between LETOR text and tables, or between model files."""
    opened = look_at(source)
    if opened.is_model:
        if data.memory is not None:
            raise UsageProblem(f"--memory is for data, and {source} holds a model")
        check_output(target, [source], MODEL, force=force)
        save_model(target, read_any_model(opened))
        return
    if Path(target).suffix.lower() == ".safetensors":
        raise UsageProblem(f"{source} holds data, and {target} is a name for a model")
    form = format_named(target)
    if form != "letor" and Path(target).suffix.lower() in COMPRESSED:
        raise UsageProblem(
            f"{target}: tables are not written compressed; Parquet is smaller than CSV by itself"
        )
    check_output(target, [source], DATA[form], force=force)
    if data.memory is not None:
        if form != "parquet" or data.format_of(source) == "parquet":
            raise UsageProblem("--memory converts CSV, TSV or LETOR text to Parquet, nothing else")
        if not isinstance(opened.source, str):
            raise UsageProblem("--memory reads the data twice, so it needs a file")
        from ranksvm.cli.pieces import convert_in_pieces

        convert_in_pieces(opened.source, target, data)
        return
    items = read_data([opened.source], data, labels=form == "letor", comments=True)
    note_no_labels(items)
    if items.item_weight is not None:
        warn(
            f"{target}: the weights of the items are not written; the format has no place for them"
        )
    if form == "letor":
        _to_letor(items, target, data)
        return
    from ranksvm.cli.tables import write_table

    write_table(items, target, form)


def _to_letor(data: RankingData, target: str, options: DataOptions) -> None:
    from ranksvm.data.svmlight_writer import save_letor

    comments: Any = data.comments
    if comments is None and data.docids is not None:
        comments = [None if docid is None else f"docid = {docid}" for docid in data.docids]
    with open_output(target) if is_stdout(target) else nullcontext(target) as place:
        save_letor(
            place,
            data.X,
            data.truth,
            data.qid,
            comments=comments,
            zero_based=bool(options.zero_based),
            missing="NULL" if options.missing == "nan" else "error",
        )
