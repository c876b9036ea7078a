"""Data input and output: files, query groups, preferences, clicks and synthetic data.

From the rest of the package, this layer imports only the native core and the top-level helpers.
Names are imported when they are first used: a program that only predicts needs none of the readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranksvm._lazy import lazy_names

if TYPE_CHECKING:
    from ranksvm.data.clicks import clicks_to_pairs, simulate_clicks
    from ranksvm.data.pair_files import read_pairs, write_pairs
    from ranksvm.data.preferences import Preferences
    from ranksvm.data.queries import QueryGroups
    from ranksvm.data.ranking_data import Comments, RankingData
    from ranksvm.data.streams import FileFormatError
    from ranksvm.data.svmlight import LetorError, load_letor
    from ranksvm.data.svmlight_writer import save_letor
    from ranksvm.data.trec import Qrels, Run, TrecError, read_qrels, read_run
    from ranksvm.data.trec_join import JoinedRun, JoinedRuns, join, join_runs
    from ranksvm.data.trec_writer import write_run

_HOME = {
    "Comments": "ranking_data",
    "FileFormatError": "streams",
    "JoinedRun": "trec_join",
    "JoinedRuns": "trec_join",
    "LetorError": "svmlight",
    "Preferences": "preferences",
    "Qrels": "trec",
    "QueryGroups": "queries",
    "RankingData": "ranking_data",
    "Run": "trec",
    "TrecError": "trec",
    "clicks_to_pairs": "clicks",
    "join": "trec_join",
    "join_runs": "trec_join",
    "load_letor": "svmlight",
    "read_pairs": "pair_files",
    "read_qrels": "trec",
    "read_run": "trec",
    "save_letor": "svmlight_writer",
    "simulate_clicks": "clicks",
    "write_pairs": "pair_files",
    "write_run": "trec_writer",
}

__all__ = [
    "Comments",
    "FileFormatError",
    "JoinedRun",
    "JoinedRuns",
    "LetorError",
    "Preferences",
    "Qrels",
    "QueryGroups",
    "RankingData",
    "Run",
    "TrecError",
    "clicks_to_pairs",
    "join",
    "join_runs",
    "load_letor",
    "read_pairs",
    "read_qrels",
    "read_run",
    "save_letor",
    "simulate_clicks",
    "write_pairs",
    "write_run",
]

__getattr__, __dir__ = lazy_names(__name__, _HOME)
