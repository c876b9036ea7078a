"""Data that is not as it should be: what is wrong, in which partition, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("distributed", reason="ranksvm.dask needs Dask")
pytest.importorskip("dask.dataframe", reason="ranksvm.dask needs Dask DataFrames")

import dask
import dask.array
import dask.dataframe
import faults
import numpy as np
import pandas
import sets
from clusters import local_cluster
from distributed import Client
from scipy import sparse

from ranksvm import LinearRankSVM
from ranksvm.dask import DaskLinearRankSVM, DaskLinearRankSVMCV, WorkersLostError
from ranksvm.data import RankingData


@pytest.fixture(scope="module")
def client() -> Any:
    with local_cluster(2, 1, processes=False) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def data() -> RankingData:
    return sets.ranking(20)


CUTS = [40, 40, 80]  # partition 1 is empty


def changed(data: RankingData, change: Any, *, of: int = 2) -> list[Any]:
    """Delayed tuples, one of which is changed; lists, so that it can be done in place."""

    def apply(part: Any) -> Any:
        X, y, qid, weight = part
        parts = [X.copy(), y.copy(), None if qid is None else qid.copy(), weight]
        change(parts)
        return tuple(parts)

    tuples = sets.as_tuples(data, CUTS)
    tuples[of] = dask.delayed(apply)(tuples[of])
    return tuples


def set_label(parts: Any) -> None:
    parts[1][3] = np.nan


def set_feature(parts: Any) -> None:
    parts[0][5, 2] = np.inf


def set_id(parts: Any) -> None:
    parts[2] = parts[2].astype(float)
    parts[2][7] = np.nan


def drop_ids(parts: Any) -> None:
    parts[2] = None


def drop_column(parts: Any) -> None:
    parts[0] = parts[0][:, 1:]


def make_sparse(parts: Any) -> None:
    parts[0] = sparse.csr_matrix(parts[0])


def make_strings(parts: Any) -> None:
    parts[0] = parts[0].astype(str)


def drop_rows(parts: Any) -> None:
    parts[1] = parts[1][1:]


def add_weights(parts: Any) -> None:
    parts[3] = np.ones(len(parts[1]))


def negative_weights(parts: Any) -> None:
    parts[3] = -np.ones(len(parts[1]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_label, r"y contains NaN or infinity in 1 .* row 3.*\(in partition 2\)"),
        (set_feature, r"not finite: inf in row 5, column 2 of partition 2"),
        (set_id, r"qid has a missing id in row 7.*\(in partition 2\)"),
        (drop_ids, "partition 2 differs from partition 0: query ids none instead of given"),
        (drop_column, "partition 2 differs from partition 0: number of features 5 instead of 6"),
        (make_sparse, "partition 0: layout sparse instead of dense"),
        (make_strings, r"X must hold real numbers.*\(in partition 2\)"),
        (drop_rows, r"inconsistent numbers of samples.*\(in partition 2\)"),
        (add_weights, "partition 0: sample_weight given instead of none"),
        (negative_weights, r"sample_weight .*\(in partition 2\)"),
    ],
)
def test_errors_name_the_partition(client, data, change, message) -> None:
    with pytest.raises(ValueError, match=message):
        DaskLinearRankSVM(client=client).fit(changed(data, change))


def test_a_failed_fit_keeps_the_old_model(client, data) -> None:
    model = DaskLinearRankSVM(client=client).fit(sets.as_tuples(data, CUTS))
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="not finite"):
        model.fit(changed(data, set_feature))
    assert np.array_equal(model.coef_, before)
    assert model.n_features_in_ == 6
    np.testing.assert_allclose(model.predict(data.X), data.X @ before)


def test_columns_of_frames(client, data) -> None:
    frame = sets.as_frame(data, CUTS)
    model = DaskLinearRankSVM(client=client)
    with pytest.raises(ValueError, match="y='lable' must name one column"):
        model.fit(frame, "lable", qid="query")
    kinds = frame.assign(kind=frame["label"].astype(int).astype("category"))
    with pytest.raises(ValueError, match=r"1 of 7 feature columns is not numeric: 'kind'.*Encode"):
        model.fit(kinds, "label", qid="query")
    words = frame.assign(word=frame["label"].astype(str))
    with pytest.raises(ValueError, match="'word'"):
        model.fit(words, "label", qid="query")
    with pytest.raises(ValueError, match="two names for one thing"):
        model.fit(frame, "label", "query", group="query")
    with pytest.raises(TypeError, match="has no parameter 'eval_set'"):
        model.fit(frame, "label", "query", eval_set=1)


def test_a_partition_that_differs_from_the_metadata(client) -> None:
    one = pandas.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0], "label": [0, 1]})
    other = one.rename(columns={"b": "c"})
    parts = [dask.delayed(one), dask.delayed(other)]
    with pytest.raises(ValueError, match="partition 1 differs from partition 0: no column 'b'"):
        DaskLinearRankSVM(client=client).fit(parts, "label")


def test_columns_in_another_order(client, data) -> None:
    frame = sets.as_frame(data, CUTS)
    model = DaskLinearRankSVM(client=client).fit(frame, "label", qid="query")
    turned = frame[["f0", "f2", "f1", "f3", "f4", "f5", "label", "query"]]
    with pytest.raises(
        ValueError, match=r"X must have .* another order: column 1 is 'f2' instead of 'f1'"
    ):
        model.score(turned, "label", qid="query")
    with pytest.raises(ValueError, match=r"another order: column 1 is 'f2' instead of 'f1'"):
        model.predict(turned)
    with pytest.raises(ValueError, match=r"It has one more column, 'more'"):
        model.score(frame.assign(more=1.0), "label", qid="query")
    with pytest.raises(
        ValueError, match=r"partition 1 differs from partition 0: another order: column 1 is 'f2'"
    ):
        model.fit([frame.to_delayed()[0], turned.to_delayed()[2]], "label", qid="query")


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask uses it
@pytest.mark.parametrize("name", [None, "position"])
def test_the_index_of_parquet_files_is_no_feature(client, data, tmp_path, name) -> None:
    pytest.importorskip("pyarrow", reason="writes Parquet files")
    rows = np.random.default_rng(0).permutation(data.n_items)
    frame = sets.as_frame(data, []).compute().set_index(pandas.Index(rows, name=name))
    frame.to_parquet(tmp_path / "a.parquet")
    read = dask.dataframe.read_parquet(tmp_path / "a.parquet")
    model = DaskLinearRankSVM(client=client).fit(read, "label", qid="query")
    assert model.feature_names_in_.tolist() == [f"f{k}" for k in range(6)]


def test_columns_of_the_same_name(client) -> None:
    frame = pandas.DataFrame([[1.0, 2.0, 0], [2.0, 1.0, 1]], columns=["a", "a", "label"])
    model = DaskLinearRankSVM(client=client)
    with pytest.raises(ValueError, match=r"X has several columns called 'a'; rename them$"):
        model.fit(dask.dataframe.from_pandas(frame, npartitions=1), "label")
    with pytest.raises(ValueError, match=r"several columns called 'a'.*\(in partition 0\)"):
        model.fit([dask.delayed(frame)], "label")


@pytest.mark.parametrize("kind", ["float64", "Int64", "object"])
def test_missing_labels_of_frames(client, kind) -> None:
    labels = pandas.Series([0, 1, None, 2, 0, 1], dtype=kind)
    frame = pandas.DataFrame({"a": np.arange(6.0)}).assign(label=labels)
    parts = [dask.delayed(frame[:2]), dask.delayed(frame[2:])]
    with pytest.raises(ValueError, match=r"y contains NaN .* row 0.*\(in partition 1\)"):
        DaskLinearRankSVM(client=client).fit(parts, "label")


def test_the_first_of_several_wrong_partitions_is_named(client, monkeypatch, data) -> None:
    monkeypatch.setattr(faults, "CLIENT", client)  # the workers are in this process

    def wait(parts: Any) -> None:
        faults.waits_for_a_failure()
        set_label(parts)

    parts = changed(data, wait, of=0)
    parts[2] = changed(data, set_label, of=2)[2]
    with pytest.raises(ValueError, match=r"row 3.*\(in partition 0\)"):
        DaskLinearRankSVM(client=client).fit(parts)


def test_clients_that_cannot_be_used(client, data) -> None:
    parts = sets.as_tuples(data, CUTS)
    address = client.scheduler.address
    with pytest.raises(ValueError, match=r"client must be .*; got '.*'. .* pass Client\('"):
        DaskLinearRankSVM(client=address).fit(parts)
    with pytest.raises(ValueError, match=r"client must be a dask.distributed.Client or None; got"):
        DaskLinearRankSVM(client=3).fit(parts)
    X, y, qid = sets.as_arrays(data, CUTS)
    with Client(address, set_as_default=False) as other:
        with pytest.raises(ValueError, match="partition 0 of X is a future of another client"):
            DaskLinearRankSVM(client=client).fit(other.compute(parts))
        # The scheduler knows these futures or not, depending on who is faster.
        try:
            model = DaskLinearRankSVM(client=client).fit(other.persist(X), y, qid)
            assert model.status_ == "converged"
        except WorkersLostError as error:
            assert "or they belong to another client" in str(error)  # noqa: PT017
    with pytest.raises(ValueError, match=r"client is closed. Connect to the cluster again"):
        DaskLinearRankSVM(client=other).fit(parts)


def test_missing_values_of_frames(client) -> None:
    frame = pandas.DataFrame({"a": [1.0, None, 3.0], "b": [1, 2, 4], "label": [0, 1, 2]})
    frame["b"] = frame["b"].astype("Int64")
    frame.loc[2, "b"] = pandas.NA
    model = DaskLinearRankSVM(client=client)
    with pytest.raises(ValueError, match=r"nan in row 1, column 0 \('a'\) of partition 0"):
        model.fit([dask.delayed(frame)], "label")
    with pytest.raises(ValueError, match=r"nan in row 2, column 1 \('b'\) of partition 0"):
        model.fit([dask.delayed(frame.fillna({"a": 0.0}))], "label")


def test_what_is_no_dask_collection(client, data) -> None:
    model = DaskLinearRankSVM(client=client)
    with pytest.raises(TypeError, match="For data in memory use the classes of ranksvm itself"):
        model.fit(data.X, data.y)
    X, y, qid = sets.as_arrays(data, [50])
    with pytest.raises(ValueError, match="must have two dimensions"):
        model.fit(y, y)
    with pytest.raises(ValueError, match="names a column, but X is a Dask Array"):
        model.fit(X, "label")
    with pytest.raises(ValueError, match="y must have one dimension"):
        model.fit(X, X, qid)
    with pytest.raises(ValueError, match="inconsistent numbers of samples: X has"):
        model.fit(X, y[:-1], qid)
    with pytest.raises(ValueError, match="inconsistent numbers of samples: X has"):
        model.fit(X, data.y[:-1], qid)
    frame = sets.as_frame(data, [50])
    with pytest.raises(ValueError, match="y must have the same partitions as X: X has 2, y has 1"):
        model.fit(frame, frame["label"].repartition(npartitions=1))
    with pytest.raises(TypeError, match="y must be a Dask Series or Dask Array with the same"):
        model.fit(frame, data.y)
    with pytest.raises(TypeError, match="y must be the name of a column, or a part of each"):
        model.fit(sets.as_tuples(data, [50]), data.y)
    with pytest.raises(ValueError, match="have their own y, qid"):
        model.fit(sets.as_tuples(data, [50]), "label")
    with pytest.raises(ValueError, match=r"got 5 elements \(in partition 0\)"):
        model.fit([dask.delayed((1, 2, 3, 4, 5))])
    with pytest.raises(TypeError, match="for explicit pairs use LinearRankSVM"):
        model.fit_pairs(X, [0], [1])
    with pytest.raises(TypeError, match=r"has no fit_files: read the files with Dask"):
        model.fit_files("*.parquet")


def test_no_rows_and_no_pairs(client, data) -> None:
    model = DaskLinearRankSVM(client=client)
    with pytest.raises(ValueError, match="X has no rows: all 2 partitions are empty"):
        model.fit(sets.as_tuples(data.take(np.arange(0)), [0]))
    same = RankingData(data.X, np.ones(data.n_items), data.qid)
    with pytest.raises(ValueError, match="pair") as on_cluster:
        model.fit(sets.as_tuples(same, CUTS))
    with pytest.raises(ValueError, match="pair") as in_memory:
        LinearRankSVM().fit(data.X, same.y, data.qid)
    assert str(on_cluster.value) == str(in_memory.value)


def test_methods_for_data_in_memory(client, data) -> None:
    X, y, qid = sets.as_arrays(data, [50])
    model = DaskLinearRankSVM(client=client).fit(X, y, qid)
    for method, arguments in (("rank", ()), ("explain", (0, 1)), ("score_pairs", ([0], [1]))):
        with pytest.raises(TypeError, match=rf"{method}\(\) works on data in memory"):
            getattr(model, method)(X, *arguments)
    local = model.to_local()
    assert model.score(X, y, qid) == pytest.approx(local.score(data.X, data.y, data.qid))
    assert model.score(data.X, data.y, data.qid) == local.score(data.X, data.y, data.qid)
    with pytest.raises(ValueError, match="X has 5 features"):
        model.predict(X[:, 1:])
    with pytest.raises(ValueError, match="must have the features of the training set"):
        model.score(X[:, 1:], y, qid)
    frame = sets.as_frame(data, [50])
    model.fit(frame, "label", qid="query")
    with pytest.raises(ValueError, match=r"X lacks 1 of the 6 features .* 'f0'"):
        model.predict(frame.drop(columns=["f0"]))


def test_wrong_parameters(client, data) -> None:
    parts = sets.as_tuples(data, CUTS)
    with pytest.raises(ValueError, match="threads_per_task"):
        DaskLinearRankSVM(client=client, threads_per_task=0).fit(parts)
    with pytest.raises(ValueError, match="C must be"):
        DaskLinearRankSVM(-1.0, client=client).fit(parts)
    with pytest.raises(ValueError, match="must be one tuple"):
        DaskLinearRankSVMCV(client=client).fit(parts, validation=(1, 2, 3, 4))


def test_cancelled_data_is_reported(client, data) -> None:
    futures = client.compute(sets.as_tuples(data, CUTS))
    client.cancel(futures[2])
    with pytest.raises(WorkersLostError, match=r"the data of partition .* is gone"):
        DaskLinearRankSVM(client=client).fit(futures)


def test_ids_of_several_types(client: Any, data: RankingData) -> None:
    def as_text(parts: Any) -> None:
        parts[2] = parts[2].astype(str)

    with pytest.raises(ValueError, match=r"qid is text in partition 2 and not in partition 0"):
        DaskLinearRankSVM(client=client).fit(changed(data, as_text), None)


def test_values_in_memory_keep_their_types(client: Any, data: RankingData) -> None:
    X = dask.array.from_array(np.asarray(data.X), chunks=(50, -1))
    ids = [one if k % 2 else str(one) for k, one in enumerate(data.qid.tolist())]
    known = LinearRankSVM().fit(data.X, data.y, ids)
    model = DaskLinearRankSVM(client=client).fit(X, data.y, qid=ids)
    assert model.n_pairs_ == known.n_pairs_
    labels = [int(y) + 2**53 if k % 2 else float(y) for k, y in enumerate(data.y.tolist())]
    known = LinearRankSVM().fit(data.X, labels, data.qid)
    model = DaskLinearRankSVM(client=client).fit(X, labels, qid=data.qid)
    assert model.n_pairs_ == known.n_pairs_
    masked = np.ma.masked_array(data.y, mask=np.arange(len(data.y)) % 2 == 0)
    with pytest.raises(ValueError, match="mask"):
        DaskLinearRankSVM(client=client).fit(X, masked, qid=data.qid)
