// Rankings inside queries.
//
// The items of query q stand at offsets[q] .. offsets[q + 1]; offsets ascend from 0, and a query
// may be empty. "By rank" means: the best item of each query first. Queries are shared among the
// threads; the work on a large query is shared, too.
#pragma once

#include <cstdint>

#include "ranksvm/parallel.hpp"

namespace ranksvm {

// --- ranking.cpp: the order of the items ---------------------------------------------------------

// order: the entries of `rows`, query by query, the highest score first; equal scores as in `rows`.
// `score` is by row and finite, and `rows` holds numbers of rows. A query has fewer than 2^32
// items.
void rank_items(const double* score, const int64_t* rows, const int64_t* offsets, int64_t n_queries,
                int64_t* order, const Context& context);

// The same for the first ranks only: query q has top_offsets[q + 1] - top_offsets[q] of them, no
// more than it has items, at top_offsets[q] in `order`.
void rank_first(const double* score, const int64_t* rows, const int64_t* offsets, int64_t n_queries,
                const int64_t* top_offsets, int64_t* order, const Context& context);

// --- ranking_sums.cpp: sums over the ranks of each query -----------------------------------------
//
// `order` has rows by rank, and only the first limits[q] ranks of query q count. Sums are added in
// blocks, in an order that depends on nothing but the number of items.

// out[q]: sum over the ranks r = 1, 2, ... of value[row at r] * weight[r - 1].
void weighted_sums(const double* value, const int64_t* order, const int64_t* offsets,
                   int64_t n_queries, const int64_t* limits, const double* weight, double* out,
                   const Context& context);

// out[q]: sum over the ranks r of relevant items (label > above) of the number of relevant items
// up to r, divided by r; and relevant[q]: the number of relevant items, whatever their rank.
void precision_sums(const double* label, double above, const int64_t* order, const int64_t* offsets,
                    int64_t n_queries, const int64_t* limits, double* out, int64_t* relevant,
                    const Context& context);

// rank[q]: the rank of the first relevant item, 0 if it is beyond limits[q]; -1 if no item of the
// query is relevant. Takes the scores as they are: nothing is sorted.
void first_relevant(const double* label, double above, const double* score, const int64_t* rows,
                    const int64_t* offsets, int64_t n_queries, const int64_t* limits, int64_t* rank,
                    const Context& context);

// out[p]: sum of x from the first rank of p's query up to p.
void running_sums(const double* x, const int64_t* offsets, int64_t n_queries, double* out,
                  const Context& context);

// The cascade model: a reader looks at the items by rank and stops at item p with probability
// stop[p]. out[p]: the probability that the reader stops at the rank of p, averaged over all orders
// of the items of each tie. Ties refine the queries: tie t stands at ties[t] .. ties[t + 1]. Beyond
// the first `limit` ranks `out` is zero. A tie of n items takes O(n min(n, limit)), and O(n) when
// its probabilities are 0 and 1 only.
void cascade(const double* stop, const int64_t* offsets, int64_t n_queries, const int64_t* ties,
             int64_t n_ties, int64_t limit, double* out, const Context& context);

// --- ranking_pairs.cpp: pairs of items of a query ------------------------------------------------

// By query. Pairs with different levels are comparable: `wrong` if the higher level has the lower
// score, `tied` if the scores are equal. `equal` are all pairs with equal scores.
struct RankedPairs {
  int64_t *comparable, *wrong, *tied, *equal;
};

// `order` is by `score` as in rank_items; `level` is by row.
void count_ranked_pairs(const double* level, const double* score, const int64_t* order,
                        const int64_t* offsets, int64_t n_queries, const RankedPairs& out,
                        const Context& context);

}  // namespace ranksvm
