"""Convert click logs to preference pairs.

A log has one row for every document that was shown: its query, its position on the page (from 1),
and whether it was clicked.  The rows of one page are an *impression*.  In each impression

    over="skipped"   a clicked document is preferred to every unclicked one above it (skip-above)
    over="others"    a clicked document is preferred to every other one, clicked or not

and the pairs of all impressions are added up: the weight of a pair is the number of times it was
seen.

**Position bias.**  Users who read from the top see the upper positions more often.  The
position-based model assumes that position k is examined with probability p_k = k^-eta (relative to
the first), independently of the document, and that an examined document i is clicked with
probability a_i.  A click at position k then has probability p_k a_i.  With ``eta``, a pair is
weighted by the inverse propensity 1 / p_k = k^eta of its *click*.  Over n impressions that show i
and j at any positions, the expected weights of ``over="others"`` are then

    i over j: n a_i        j over i: n a_j        difference: n (a_i - a_j)

They depend neither on the positions nor on the ranker that chose them; what remains of the order of
the pages is random variation (Joachims, Swaminathan & Schnabel 2017).  An impression in which both
are clicked counts for both.

The propensity of the *unclicked* document is not used.  A document is not clicked with probability
1 - p_k a_j, and no factor makes this proportional to 1 - a_j.  ``over="others"`` does not need it,
since it does not depend on whether the other document was clicked.

**Limits of weighting.**  Skip-above pairs always contradict the displayed order.  If i was shown
below j in n' of the n impressions, and m is the position of j, the expected weight of i over j is
the sum of a_i (1 - p_m a_j) over these n' impressions, and the weight of j over i comes from the
other n - n'.  If a ranker always shows the same order, all pairs are one-sided, whatever their
weights.  Skip-above pairs are therefore suited to pages with varying order, and ``eta`` to
``over="others"``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._checks import check_choice, check_integer, check_positive, finite_number
from ranksvm._messages import shown
from ranksvm._values import as_float, exact_vector
from ranksvm._vectors import Rows
from ranksvm.data.impressions import Items, read_impressions
from ranksvm.data.preferences import Preferences
from ranksvm.data.queries import QueryGroups

Seed = int | np.random.Generator | None

# Pairs that are listed before equal ones are merged, at about 100 bytes each.  The final merge
# needs four times the memory of the result, so this number sets the peak only if pairs repeat.
_PAIRS_AT_A_TIME = 2_000_000


def clicks_to_pairs(
    impressions: Any,
    *,
    query: str = "query",
    position: str = "position",
    document: str = "document",
    clicked: str = "clicked",
    session: str | None = None,
    over: Literal["skipped", "others"] = "skipped",
    eta: float | None = None,
    max_weight: float | None = None,
    net: bool = False,
    items: Items | None = None,
) -> Preferences:
    """Convert a click log to weighted preference pairs.

    Parameters
    ----------
    impressions : frame, or mapping of str to array-like of shape (n_rows,)
        One row for every document that was shown, in any order.
    query, position, document, clicked : str
        Column names.  Positions are integers from 1 and may have gaps; clicks are booleans, or 0
        and 1; documents are row numbers of X, from 0, unless ``items`` is given.
    session : str or None, default=None
        Name of the column that distinguishes the impressions of a query.  None means that every
        query was shown once.
    over : {"skipped", "others"}, default="skipped"
        What a clicked document is preferred to: the unclicked documents above it, or all other
        documents of the impression.
    eta : float or None, default=None
        Weight pairs by the inverse propensity of their click, position^eta.  0 and None mean
        weight 1.  This corrects position bias (see the notes); it is meant for ``over="others"``.
    max_weight : float or None, default=None
        Upper limit of the inverse propensity, at least 1.  It reduces the variance from rare clicks
        at low positions, at the cost of some bias towards the ranker that produced the log.
    net : bool, default=False
        If two documents are preferred both ways, which is common with ``over="others"``, keep only
        the heavier pair, with the difference of the weights (none if they are equal).  This gives
        fewer pairs and no contradictions.
    items : (qid, docid) or None, default=None
        Query ids and document ids of the rows of X, each of shape (n_items,), used to find the
        documents of the log.  Rows whose document id is None are ignored.  If qid is None,
        documents are found by their id alone, whatever the query.

    Returns
    -------
    Preferences
        Each pair once, sorted by the row of the better, then of the worse document; its weight is
        the sum over the log.  The result does not depend on the order of the log's rows, not even
        in the last bit.  Without pairs the arrays are empty.

    Raises
    ------
    ValueError
        If a column is missing or has invalid values, a position or a document occurs twice in an
        impression, or a document is not among ``items``.

    Notes
    -----
    Users who read from the top see the upper positions more often.  ``eta`` assumes that position k
    is examined with probability k^-eta, whatever the document.  With ``over="others"``, the
    expected weight of i over j is then proportional to the probability that a user who sees i
    clicks it, wherever i and j were shown.  With ``over="skipped"``, every pair contradicts the
    displayed order, and no weight changes that.

    References
    ----------
    Joachims (2002), "Optimizing search engines using clickthrough data": skip-above pairs.
    Joachims, Swaminathan & Schnabel (2017), "Unbiased learning-to-rank with biased feedback".

    Examples
    --------
    >>> from ranksvm.data import clicks_to_pairs
    >>> log = {"query": [7, 7, 7], "position": [1, 2, 3], "document": [0, 1, 2],
    ...        "clicked": [False, False, True]}
    >>> better, worse, weight = clicks_to_pairs(log, eta=1.0)
    >>> better, worse, weight
    (array([2, 2]), array([0, 1]), array([3., 3.]))
    """
    check_choice("over", over, ("skipped", "others"))
    _check_weighting(eta, max_weight)
    names = {"query": query, "position": position, "document": document, "clicked": clicked}
    if session is not None:
        names["session"] = session
    log = read_impressions(impressions, names, items)
    weight, level = _inverse_propensities(log.position, eta, max_weight)
    pairs = _pairs(log.impression, log.clicked, over)
    return _summed(pairs, log.row, level, weight, net)


def _check_weighting(eta: float | None, max_weight: float | None) -> None:
    if eta is not None and not _is_number(eta):
        raise ValueError(f"eta must be a finite number >= 0, or None; got {shown(eta)}")
    if max_weight is None:
        return
    check_positive("max_weight", max_weight)
    if not eta:
        raise ValueError(
            f"max_weight={max_weight!r} limits the weights from eta, but eta is {eta!r}"
        )
    if max_weight < 1.0:
        raise ValueError(
            f"max_weight must be at least 1, the weight of the first position; got {max_weight!r}"
        )


def _is_number(value: Any, most: float = sys.float_info.max) -> bool:
    """Return whether a value is a number from 0 to ``most``; booleans are not numbers."""
    number = finite_number(value)
    return number is not None and 0.0 <= number <= most


def _pairs(impression: Rows, clicked: NDArray[np.bool_], over: str) -> Iterator[tuple[Rows, Rows]]:
    """Yield the better and worse rows of a log sorted by impression and position, in parts."""
    begins = np.flatnonzero(np.diff(impression, prepend=-1))
    clicks = np.flatnonzero(clicked)
    page = np.searchsorted(begins, clicks, side="right") - 1
    ends = np.append(begins[1:], len(clicked))
    # A click is preferred to n of the candidates, from the first one on, except itself.
    if over == "skipped":
        candidates = np.flatnonzero(~clicked)
        unclicked_before = np.arange(len(clicked)) - np.cumsum(clicked) + clicked
        first = unclicked_before[begins[page]]
        n = unclicked_before[clicks] - first
    else:
        candidates = np.arange(len(clicked))
        first = begins[page]
        n = ends[page] - first
    part = (np.cumsum(n) - n) // _PAIRS_AT_A_TIME
    for chosen in np.split(np.arange(len(clicks)), np.flatnonzero(np.diff(part)) + 1):
        count = n[chosen]
        better = np.repeat(clicks[chosen], count)
        start = first[chosen] - np.cumsum(count) + count
        worse = candidates[np.repeat(start, count) + np.arange(count.sum())]
        different = better != worse
        yield better[different], worse[different]


class _Counts(NamedTuple):
    """How often each pair of documents was seen with each weight."""

    pair: Rows
    level: Rows
    times: Rows


def _merged(parts: list[_Counts]) -> _Counts:
    """Return all counts, sorted, with those of the same pair and weight added up."""
    pair, level, times = map(np.concatenate, zip(*parts, strict=True))
    order = np.lexsort((level, pair))
    pair, level = pair[order], level[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (pair[1:] != pair[:-1]) | (level[1:] != level[:-1])
    begin = np.flatnonzero(new)
    if len(begin):
        times = np.add.reduceat(times[order], begin)
    return _Counts(pair[begin], level[begin], times)


def _summed(
    pairs: Iterator[tuple[Rows, Rows]],
    rows: Rows,
    level: Rows,
    weight: NDArray[np.float64],
    net: bool,
) -> Preferences:
    """Add up the weights of equal pairs.

    Pairs are counted for each weight, in integers, before the weights are added, so that rounding
    does not depend on the order of the log.

    Parts are merged as they arrive, so that each is at least twice as long as the next: a pair is
    sorted O(log n_parts) times, and all parts together are less than twice as long as the first.
    """
    distinct, code = np.unique(rows, return_inverse=True)
    n_rows = max(1, len(distinct))
    parts: list[_Counts] = []
    for better, worse in pairs:
        keys = code[better] * n_rows + code[worse]
        parts.append(_merged([_Counts(keys, level[better], np.ones_like(keys))]))
        while len(parts) > 1 and len(parts[-2].pair) < 2 * len(parts[-1].pair):
            parts[-2:] = [_merged(parts[-2:])]
    while len(parts) > 1:
        parts[-2:] = [_merged(parts[-2:])]
    pair, levels, times = parts.pop()
    begin = np.flatnonzero(np.diff(pair, prepend=-1))
    total = np.add.reduceat(times * weight[levels], begin) if len(begin) else np.empty(0)
    pair = pair[begin]
    better, worse = np.divmod(pair, n_rows)
    if net and len(pair):
        opposite = worse * n_rows + better
        at = np.minimum(np.searchsorted(pair, opposite), len(pair) - 1)
        total = total - np.where(pair[at] == opposite, total[at], 0.0)
        stays = total > 0.0
        better, worse, total = better[stays], worse[stays], total[stays]
    return Preferences(distinct[better], distinct[worse], total)


def _inverse_propensities(
    position: Rows, eta: float | None, max_weight: float | None
) -> tuple[NDArray[np.float64], Rows]:
    """Return the distinct weights, and for each row the index of the weight of its click."""
    if not eta:
        return np.ones(1), np.zeros_like(position)
    distinct, level = np.unique(position, return_inverse=True)
    with np.errstate(over="ignore"):
        weight = np.power(distinct.astype(np.float64), eta)
    if max_weight is not None:
        weight = np.minimum(weight, max_weight)
    if not np.isfinite(weight).all():
        raise ValueError(
            f"position {distinct[-1]} to the power of eta={eta!r} is not finite. Use a smaller "
            "eta, or set max_weight"
        )
    return weight, level


# --- Simulation ---------------------------------------------------------------------------------


def simulate_clicks(
    scores: ArrayLike,
    attraction: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    n_impressions: int = 10,
    depth: int | None = None,
    eta: float = 1.0,
    noise: float = 0.0,
    shuffle: float = 0.0,
    random_state: Seed = None,
) -> dict[str, NDArray[Any]]:
    """Simulate a click log with the position-based model.

    A ranker shows the items of each query sorted by score.  Position k is examined with probability
    k^-eta.  An examined item attracts a click with probability ``attraction``; an examined item
    that does not attract a click is clicked with probability ``noise``.

    Parameters
    ----------
    scores : array-like of shape (n_items,)
        Scores of the ranker that produces the log.
    attraction : array-like of shape (n_items,)
        Click probabilities of examined items, in [0, 1]; or booleans that say whether an item is
        relevant.
    qid : array-like of shape (n_items,) or None, default=None
        Query id of each item; None means a single query, 0.
    n_impressions : int, default=10
        How often each query is shown.  The whole log is in memory at once.
    depth : int or None, default=None
        Number of positions per page; None shows all items.
    eta : float, default=1.0
        How fast attention decreases with the position; 0 examines everything.
    noise : float, default=0.0
        Probability of a click on an examined item that did not attract one, in [0, 1].
    shuffle : float, default=0.0
        Scale of Gumbel noise that is added to the scores in every impression; with 0 the order is
        always the same.
    random_state : int, Generator or None, default=None
        Seed or random number generator.

    Returns
    -------
    dict of str to ndarray, each of shape (n_rows,)
        ``session`` (int64, a different number for each impression), ``query`` (as in qid),
        ``position`` (int64, from 1), ``document`` (int64, row number of the item) and ``clicked``
        (bool), page by page from the top.  Pass it to :func:`clicks_to_pairs` with
        ``session="session"``, or make a frame of it.

    Examples
    --------
    >>> from ranksvm.data import simulate_clicks
    >>> log = simulate_clicks([2.0, 1.0, 3.0], [0, 1, 1], n_impressions=1, eta=0, random_state=0)
    >>> log["document"], log["clicked"]
    (array([2, 0, 1]), array([ True, False,  True]))
    """
    shown = _numbers("scores", scores)
    attractive = _numbers("attraction", attraction)
    if len(attractive) != len(shown):
        raise ValueError(f"got {len(attractive)} values of attraction for {len(shown)} scores")
    if ((attractive < 0.0) | (attractive > 1.0)).any():
        raise ValueError(
            f"attraction must hold probabilities in [0, 1]; got {attractive.min()} to "
            f"{attractive.max()}. Divide grades by the largest grade"
        )
    check_integer("n_impressions", n_impressions)
    if depth is not None:
        check_integer("depth", depth)
    if not _is_number(noise, 1.0):
        raise ValueError(f"noise must be a probability, a number in [0, 1]; got {noise!r}")
    for name, value in (("eta", eta), ("shuffle", shuffle)):
        if not _is_number(value):
            raise ValueError(f"{name} must be a finite number >= 0; got {value!r}")
    groups = QueryGroups.from_qid(qid, len(shown))
    rng = np.random.default_rng(random_state)

    session = (np.arange(n_impressions)[:, None] * groups.n_queries + groups.index).ravel()
    row = np.tile(np.arange(len(shown)), n_impressions)
    score = shown[row]
    if shuffle:
        scale = max(1.0, float(shuffle))  # avoids overflow for a large shuffle
        score = score / scale + (shuffle / scale) * rng.gumbel(size=len(score))
    order = np.lexsort((-score, session))
    session, row = session[order], row[order]
    position = 1 + np.arange(len(row)) - np.searchsorted(session, session)
    if depth is not None:
        on_page = position <= depth
        session, row, position = session[on_page], row[on_page], position[on_page]
    chance = attractive + noise * (1.0 - attractive)
    examined = rng.random(len(row)) < position ** -float(eta)
    return {
        "session": session,
        "query": groups.ids[groups.index[row]],
        "position": position,
        "document": row,
        "clicked": examined & (rng.random(len(row)) < chance[row]),
    }


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = as_float(name, exact_vector(name, values))
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers, one for each item; got {values!r:.80}")
    return array
