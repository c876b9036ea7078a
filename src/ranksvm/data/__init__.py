"""Data on its way in and out: files, query groups and synthetic sets.

Of the package this layer imports the native core and the helpers only.
"""

from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import Comments, RankingData
from ranksvm.data.sources import FileFormatError
from ranksvm.data.svmlight import LetorError, load_letor, save_letor
from ranksvm.data.trec import join, read_qrels, read_run, write_run

__all__ = [
    "Comments",
    "FileFormatError",
    "LetorError",
    "QueryGroups",
    "RankingData",
    "join",
    "load_letor",
    "read_qrels",
    "read_run",
    "save_letor",
    "write_run",
]
