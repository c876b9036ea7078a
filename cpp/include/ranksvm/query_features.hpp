// Features that say where an item stands among the items of its query.
//
// For a feature x and an item of a query of n items:
//
//     rank       (number of items with less + (number with as much + 1) / 2) / n
//     minmax     (x - min) / (max - min)
//     zscore     (x - mean) / deviation, with the mean of the squares over n
//     mean_diff  x - mean
//
// The last three are 0 where all items of the query are equal. Items are finite; -0 equals 0.
// Nothing overflows or vanishes on the way: a result is infinite only if it is beyond the largest
// number of its type. A query has fewer than 2^32 items.
#pragma once

#include <cstdint>
#include <vector>

#include "ranksvm/parallel.hpp"
#include "ranksvm/products.hpp"

namespace ranksvm {

enum class QueryFeature { rank, minmax, zscore, mean_diff };

// Feature k of column c of row r is written to data[r * row_stride + k * cols + c], where `cols` is
// the number of columns of the matrix. Rows that are in no group are left as they are.
template <class O>
struct QueryFeatureTable {
  O* data;
  int64_t row_stride;
};

// Throw std::invalid_argument for rows and columns that do not exist.
template <class T, class O>
void query_features(const Strided<T>& x, const RowsInGroups& groups,
                    const std::vector<QueryFeature>& features, const QueryFeatureTable<O>& out,
                    const Context& context);
// Every column at most once in a row. Elements that are not stored are zeros, which share their
// results: beside filling `out`, the work is O(e log e) for e stored elements.
template <class T, class I, class O>
void query_features(const SparseRows<T, I>& x, const RowsInGroups& groups,
                    const std::vector<QueryFeature>& features, const QueryFeatureTable<O>& out,
                    const Context& context);

}  // namespace ranksvm
