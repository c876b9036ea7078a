"""TREC's files: read, written, joined, and judged as TREC's own tool judges them."""

from __future__ import annotations

import gzip
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ranksvm.data.trec import Qrels, Run, TrecError, read_qrels, read_run
from ranksvm.data.trec_join import join, join_runs
from ranksvm.data.trec_writer import write_run
from ranksvm.metrics import (
    average_precision,
    evaluate,
    evaluate_queries,
    ndcg,
    precision_at,
    recall_at,
    reciprocal_rank,
)

QRELS = "301 0 d1 1\n301 0 d2 0\n\n302 0 d1 2\n302 0 d3 -1\n"
RUN = "301 Q0 d2 1 2.5 x\n301 Q0 d9 2 1e-3 x\n302 Q0 d1 1 -7 x\n303 Q0 d1 1 1 x\n"


def qrels(text: str) -> Qrels:
    return read_qrels(io.StringIO(text))


def run(text: str) -> Run:
    return read_run(io.StringIO(text))


def test_qrels():
    found = qrels(QRELS)
    assert found.qid.dtype == np.int64
    assert found.qid.tolist() == [301, 301, 302, 302]
    assert found.docid.tolist() == ["d1", "d2", "d1", "d3"]
    assert found.relevance.tolist() == [1, 0, 2, -1]
    assert found.relevance.dtype == np.int64


def test_run():
    found = run(RUN.replace(" ", "\t ").replace("\n", "\r\n"))
    assert found.qid.tolist() == [301, 301, 302, 303]
    assert found.docid.tolist() == ["d2", "d9", "d1", "d1"]
    assert found.score.tolist() == [2.5, 1e-3, -7.0, 1.0]
    assert found.tag == "x"


def test_ids_stay_as_they_are():
    assert qrels("007 0 d 1\n8 0 d 1\n").qid.tolist() == ["007", "8"]
    assert qrels("q\u00a01 0 d\u30001 1\n").docid.tolist() == ["d\u30001"]
    assert qrels("9223372036854775808 0 d 1\n").qid.tolist() == ["9223372036854775808"]


def test_compressed_files(tmp_path):
    path = tmp_path / "qrels"
    path.write_bytes(gzip.compress(QRELS.encode()))
    assert read_qrels(path).relevance.tolist() == [1, 0, 2, -1]


@pytest.mark.parametrize(
    ("read", "text", "line", "words"),
    [
        (qrels, "1 0 d\n", 1, ["found '1 0 d'", "4 columns: query, iteration, document, rel"]),
        (qrels, "1 0 d 1 5\n", 1, ["got 5"]),
        (qrels, QRELS + "1 0 d 1.5\n", 6, ["found '1.5'", "expected an integer"]),
        (qrels, QRELS + "1 0 d 1_0\n", 6, ["expected an integer"]),
        (qrels, QRELS + "302 0 d1 2\n", 6, ["once per query", "302", "line 4"]),
        (qrels, "", None, ["holds no data; expected lines with 4 columns"]),
        (qrels, "1 0 d\0 1\n", 1, ["not a text file"]),
        (qrels, "1 0 a 9007199254740992\n1 0 b 9007199254740993\n", 2, ["between -2^53 and 2^53"]),
        (run, "1 Q0 d 1 5\n", 1, ["6 columns: query, Q0, document, rank, score, tag; got 5"]),
        (run, RUN + "1 Q0 d 1 five x\n", 5, ["found 'five'", "expected a finite score"]),
        (run, RUN + "1 Q0 d 1 nan x\n", 5, ["found 'nan'"]),
        (run, RUN + "1 Q0 d 1 1e999 x\n", 5, ["found '1e999'"]),
        (run, RUN + "1 Q0 d 1 1_0 x\n", 5, ["found '1_0'"]),
        (run, RUN + "301 Q0 d9 3 0 x\n", 5, ["once per query", "line 2"]),
    ],
)
def test_bad_lines(read, text, line, words):
    with pytest.raises(TrecError) as caught:
        read(text)
    assert caught.value.line == line
    assert caught.value.file == "<StringIO>"
    for word in words:
        assert word in str(caught.value)


def test_text_that_is_not_utf8():
    with pytest.raises(TrecError, match=r"line 1: found .*, expected UTF-8"):
        read_qrels(io.BytesIO(b"1 0 \xff 1\n"))


def test_written_run(tmp_path):
    path = tmp_path / "run"
    qid, docid = ["b", "a", "b", "b", "a"], ["d1", "d2", "d3", "d4", "d5"]
    write_run(path, qid, docid, [1, 0.1, 3, 1, 1 / 3], tag="me")
    assert path.read_text() == (
        "b Q0 d3 1 3.0 me\nb Q0 d1 2 1.0 me\nb Q0 d4 3 1.0 me\n"
        "a Q0 d5 1 0.3333333333333333 me\na Q0 d2 2 0.1 me\n"
    )
    out = io.BytesIO()
    write_run(out, None, ["x", "y"], [1, 2])
    assert out.getvalue() == b"0 Q0 y 1 2.0 ranksvm\n0 Q0 x 2 1.0 ranksvm\n"


SCORES = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(st.integers(0, 3), SCORES), min_size=1))
def test_a_written_run_reads_back(rows):
    qid, scores = map(np.array, zip(*rows, strict=True))
    docid = [f"d{row}" for row in range(len(rows))]
    out = io.BytesIO()
    write_run(out, qid, docid, scores)
    out.seek(0)
    found = read_run(out)
    given_rows = {docid[row]: (qid[row], float(scores[row]).hex()) for row in range(len(rows))}
    back = zip(found.qid, found.score, strict=True)
    assert dict(zip(found.docid, ((q, float(s).hex()) for q, s in back), strict=True)) == given_rows
    for query in set(found.qid.tolist()):
        inside = found.score[found.qid == query]
        assert (np.diff(inside) <= 0).all()
        rows_inside = [int(d[1:]) for d in found.docid[found.qid == query]]
        ties = np.flatnonzero(np.diff(inside) == 0)
        assert all(rows_inside[i] < rows_inside[i + 1] for i in ties)


def test_many_lines_in_order(monkeypatch):
    monkeypatch.setattr("ranksvm.data.targets._LINES", 7)
    out = io.BytesIO()
    write_run(out, np.arange(40) // 13, [f"d{i}" for i in range(40)], -np.arange(40.0))
    lines = [line.split() for line in out.getvalue().decode().splitlines()]
    assert [line[2] for line in lines] == [f"d{i}" for i in range(40)]
    assert [int(line[3]) for line in lines] == [i % 13 + 1 for i in range(40)]


@pytest.mark.parametrize(
    ("args", "options", "match"),
    [
        (([1], ["d"], [np.nan]), {}, "scores must be finite; got nan in row 0"),
        (([1], ["d"], [-np.inf]), {}, "scores must be finite; got -inf in row 0"),
        (([1], ["d"], [[1]]), {}, "scores must be one-dimensional"),
        (([1, 2], ["d"], [1]), {}, "qid"),
        (([1], ["d", "e"], [1]), {}, "docid must have one id per score"),
        (
            ([1], ["a b"], [1]),
            {},
            "docid of row 0 must be a word without whitespace or .*; got 'a b'",
        ),
        (([1], [3], [1]), {}, "docid of row 0 must be a word"),
        ((["a b"], ["d"], [1]), {}, "qid must be a word without whitespace"),
        (([1, 1], ["d", "d"], [1, 2]), {}, "'d' of row 1 occurs twice in query 1"),
        (([1], ["d"], [1]), {"tag": "my run"}, "tag must be a word"),
    ],
)
def test_what_cannot_be_written(tmp_path, args, options, match):
    with pytest.raises(ValueError, match=match):
        write_run(tmp_path / "run", *args, **options)
    assert list(tmp_path.iterdir()) == []


def test_join():
    joined = join(qrels(QRELS), run(RUN))
    assert joined.qid.tolist() == [301, 301, 301, 302, 302]
    assert joined.docid.tolist() == ["d2", "d9", "d1", "d1", "d3"]
    assert joined.y.tolist() == [0, 0, 1, 2, 0]
    assert joined.scores.tolist() == [2.5, 1e-3, -np.inf, -7, -np.inf]
    joined = join(qrels(QRELS), run(RUN), unretrieved="drop")
    assert joined.docid.tolist() == ["d2", "d9", "d1"]
    more = qrels(QRELS + "q7 0 d1 1\nq7 0 d2 0\n")
    joined = join(more, run(RUN), queries="judged")
    assert joined.qid.tolist()[-2:] == ["q7", "q7"]
    assert joined.scores.tolist()[-2:] == [-np.inf, -np.inf]
    joined = join(more, run(RUN), queries="judged", unretrieved="drop")
    assert "q7" not in joined.qid.tolist()


def test_rows_come_by_rank():
    joined = join(qrels("1 0 b 1\n"), run("1 Q0 a 1 2 t\n1 Q0 c 2 2 t\n1 Q0 d 3 5 t\n"))
    assert joined.docid.tolist() == ["d", "c", "a", "b"]  # of equal scores the last id first


def test_what_was_not_retrieved_does_not_count():
    joined = join(qrels("1 0 A 1\n1 0 B 0\n"), run("1 Q0 B 1 2.0 t\n"))
    names = ["map", "mrr", "ndcg", "p@5", "err"]
    assert evaluate(*joined[:3], names) == dict.fromkeys(names, 0.0)


def test_bad_joins():
    with pytest.raises(ValueError, match="the run has queries 301, 302, 303; the qrels have 5"):
        join(qrels("5 0 d 1\n"), run(RUN))
    with pytest.raises(ValueError, match="unretrieved must be"):
        join(qrels(QRELS), run(RUN), unretrieved="first")
    with pytest.raises(ValueError, match="queries must be"):
        join(qrels(QRELS), run(RUN), queries="all")


def test_join_runs():
    others = run("302 Q0 d3 1 2 y\n302 Q0 d7 2 2 y\n301 Q0 d1 1 1 y\n304 Q0 d1 1 1 y\n")
    joined = join_runs(qrels(QRELS + "305 0 d1 1\n"), {"one": run(RUN), "two": others})
    assert joined.qid.tolist() == [301, 301, 301, 302, 302, 302]
    assert joined.docid.tolist() == ["d9", "d2", "d1", "d7", "d3", "d1"]
    assert joined.y.tolist() == [0, 0, 1, 0, 0, 2]
    inf = np.inf
    assert joined.scores["one"].tolist() == [1e-3, 2.5, -inf, -inf, -inf, -7]
    assert joined.scores["two"].tolist() == [-inf, -inf, 1, 2, 2, -inf]
    assert joined.missing == {"one": [], "two": []}  # 303 and 304 are not judged
    joined = join_runs(qrels(QRELS), {"one": run(RUN), "two": run("301 Q0 d1 1 1 y\n")})
    assert joined.qid.tolist() == [301, 301, 301]
    assert joined.missing == {"one": [], "two": ["302"]}


def test_bad_joins_of_runs():
    with pytest.raises(ValueError, match="needs at least one run"):
        join_runs(qrels(QRELS), {})
    with pytest.raises(ValueError, match="of the run two is judged: the run has queries 9"):
        join_runs(qrels(QRELS), {"one": run(RUN), "two": run("9 Q0 d 1 1 t\n")})
    runs = {"one": run("301 Q0 d 1 1 t\n"), "two": run("302 Q0 d 1 1 t\n")}
    with pytest.raises(ValueError, match=r"in every run: one has 301; two has 302\. Do the files"):
        join_runs(qrels(QRELS), runs)


WORDS = st.sampled_from("abcd")
JUDGED = st.dictionaries(st.tuples(WORDS, WORDS), st.integers(-1, 3), min_size=1)
RANKED = st.dictionaries(st.tuples(WORDS, WORDS), st.integers(0, 2), min_size=1)


@given(JUDGED, RANKED, RANKED)
def test_runs_joined_together_or_alone(judged, first, second):
    """Most metrics do not see the documents that only the other run has."""
    queries = {q for q, _ in judged} & {q for q, _ in first} & {q for q, _ in second}
    known = qrels("".join(f"{q} 0 {d} {y}\n" for (q, d), y in judged.items()))
    runs = {
        name: run("".join(f"{q} Q0 {d} 0 {s} {name}\n" for (q, d), s in ranked.items()))
        for name, ranked in {"first": first, "second": second}.items()
    }
    if not queries:
        with pytest.raises(ValueError, match="Do the files belong together"):
            join_runs(known, runs)
        return
    joined = join_runs(known, runs)
    assert set(joined.qid.tolist()) == queries
    names = ["ndcg@2", "ndcg_linear", "map", "p@2", "recall@2", "recall", "mrr"]
    for name, ranking in runs.items():
        together = evaluate_queries(joined.y, joined.scores[name], joined.qid, names)
        alone = evaluate_queries(*join(known, ranking)[:3], names)
        rows = [alone.ids.tolist().index(query) for query in together.ids.tolist()]
        for metric in names:
            np.testing.assert_allclose(together.columns[metric], alone.columns[metric][rows])


def trec_files(*, tied: bool) -> tuple[Qrels, Run]:
    """50 judged queries, of which the run lacks some; it has 60 % of the judged documents."""
    rng = np.random.default_rng(0)
    judged, ranked = [], []
    for query in range(50):
        documents = [f"d{i}" for i in rng.permutation(rng.integers(8, 60))]
        known = documents[: rng.integers(3, 30)]
        judged += [f"{query} 0 {document} {rng.integers(-1, 4)}\n" for document in known]
        for document in documents:
            score = float(rng.integers(5)) if tied else rng.standard_normal()
            if query >= 5 and (document not in known or rng.random() < 0.6):
                ranked.append(f"{query} Q0 {document} 0 {score!r} t\n")
    ranked.append("99 Q0 d1 0 1 t\n")
    return qrels("".join(judged)), run("".join(ranked))


def by_query(table: Qrels | Run, values: NDArray[Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for query, document, value in zip(table.qid, table.docid, values.tolist(), strict=True):
        found.setdefault(str(query), {})[document] = value
    return found


@pytest.mark.parametrize("queries", ["both", "judged"])
@pytest.mark.parametrize("tied", [False, True])
def test_joined_runs_are_judged_as_by_trec_eval(tied, queries):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    judgements, ranking = trec_files(tied=tied)
    grades = by_query(judgements, judgements.relevance)
    cut = {"P.1,5,20", "recall.1,5,20", "ndcg_cut.5,10", "map_cut.10"}
    measures = {"map", "recip_rank", "ndcg", *cut}
    evaluator = pytrec_eval.RelevanceEvaluator(grades, measures)
    expected = evaluator.evaluate(by_query(ranking, ranking.score))
    y, scores, qid, _ = join(judgements, ranking, queries=queries)
    assert 0.1 < np.isneginf(scores).mean() < 0.5
    order = [str(query) for query in dict.fromkeys(qid.tolist())]
    assert len(order) == (45 if queries == "both" else 50)
    assert set(expected) == set(order[:45])

    def trec(measure):
        return [expected[query][measure] if query in expected else 0.0 for query in order]

    def ours(metric, **options):
        return metric(y, scores, qid, empty="zero", per_query=True, **options)

    np.testing.assert_allclose(ours(average_precision), trec("map"))
    np.testing.assert_allclose(ours(average_precision, k=10), trec("map_cut_10"))
    np.testing.assert_allclose(ours(reciprocal_rank), trec("recip_rank"))
    np.testing.assert_allclose(ours(ndcg, k=None, gain="linear"), trec("ndcg"))
    for k in (1, 5, 20):
        np.testing.assert_allclose(ours(precision_at, k=k), trec(f"P_{k}"))
        np.testing.assert_allclose(ours(recall_at, k=k), trec(f"recall_{k}"))
    for k in (5, 10):
        np.testing.assert_allclose(ours(ndcg, k=k, gain="linear"), trec(f"ndcg_cut_{k}"))
    relevant = [max(grades[query].values()) > 0 for query in order]
    means = evaluate(y, scores, qid, ["map", "mrr", "p@5"])
    for name, measure in {"map": "map", "mrr": "recip_rank", "p@5": "P_5"}.items():
        assert means[name] == pytest.approx(np.mean(np.array(trec(measure))[relevant]))
