// The pairs of a ranking that matter to DCG, with the weights of LambdaRank.
//
// Swapping the items at ranks a and b of a query changes its DCG by |gain - gain'| |D(a) - D(b)|,
// with the discount D of a rank. The pairs of items with different gains, at least one of them
// among the first `truncation` ranks, have this weight, times a factor of the query and the weights
// of both items.
#pragma once

#include <cstdint>

#include "ranksvm/parallel.hpp"

namespace ranksvm {

struct RankedGains {
  const double* gain;      // by row
  const double* weight;    // by row; null: all ones
  const int64_t* order;    // rows by rank, query by query
  const int64_t* offsets;  // of the queries in `order`
  int64_t n_queries;
  int64_t truncation;
  const double* discount;      // by rank, from 0; as many as the longest query has items
  const double* query_factor;  // by query
};

// By query: how many pairs there are. O(n log n), whatever the truncation.
void count_lambda_pairs(const RankedGains& ranked, int64_t* counts, const Context& context);

// The pairs of query q from starts[q] on, by the rank of their upper item and then of the lower.
void list_lambda_pairs(const RankedGains& ranked, const int64_t* starts, int64_t* better,
                       int64_t* worse, double* weight, const Context& context);

}  // namespace ranksvm
