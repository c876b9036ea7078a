"""Data input and output: files, query groups, preferences, clicks and synthetic data.

From the rest of the package, this layer imports only the native core and the top-level helpers.
"""

from ranksvm.data.clicks import clicks_to_pairs, simulate_clicks
from ranksvm.data.pair_files import read_pairs, write_pairs
from ranksvm.data.preferences import Preferences
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import Comments, RankingData
from ranksvm.data.streams import FileFormatError
from ranksvm.data.svmlight import LetorError, load_letor
from ranksvm.data.svmlight_writer import save_letor
from ranksvm.data.trec import JoinedRun, Qrels, Run, TrecError, join, read_qrels, read_run
from ranksvm.data.trec_writer import write_run

__all__ = [
    "Comments",
    "FileFormatError",
    "JoinedRun",
    "LetorError",
    "Preferences",
    "Qrels",
    "QueryGroups",
    "RankingData",
    "Run",
    "TrecError",
    "clicks_to_pairs",
    "join",
    "load_letor",
    "read_pairs",
    "read_qrels",
    "read_run",
    "save_letor",
    "simulate_clicks",
    "write_pairs",
    "write_run",
]
