// Rankings inside queries.
//
// The items of query q stand at offsets[q] .. offsets[q + 1]; offsets ascend from 0, and a query
// may be empty. "By rank" means: the best item of each query first. Queries are shared among the
// threads; the sort of a large query is shared, too.
#pragma once

#include <cstdint>

#include "ranksvm/parallel.hpp"

namespace ranksvm {

// order: the entries of `rows`, query by query, the highest score first; equal scores as in `rows`.
// `score` is by row and finite, and `rows` holds numbers of rows. A query has fewer than 2^32
// items.
void rank_items(const double* score, const int64_t* rows, const int64_t* offsets, int64_t n_queries,
                int64_t* order, const Context& context);

// out[p]: sum of x from the first rank of p's query up to p.
void running_sums(const double* x, const int64_t* offsets, int64_t n_queries, double* out,
                  const Context& context);

// count[q]: pairs of positions a < b of query q with x[a] < x[b].
void count_inversions(const double* x, const int64_t* offsets, int64_t n_queries, int64_t* count,
                      const Context& context);

// The cascade model: a reader looks at the items by rank and stops at item p with probability
// stop[p]. out[p]: the probability that the reader stops at the rank of p, averaged over all orders
// of the items of each tie. Ties refine the queries: tie t stands at ties[t] .. ties[t + 1]. Beyond
// the first `limit` ranks `out` is zero. A tie of n items takes O(n min(n, limit)), and O(n) when
// its probabilities are 0 and 1 only.
void cascade(const double* stop, const int64_t* offsets, int64_t n_queries, const int64_t* ties,
             int64_t n_ties, int64_t limit, double* out, const Context& context);

}  // namespace ranksvm
