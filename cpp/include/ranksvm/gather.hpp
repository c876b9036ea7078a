// Copies of some rows of a matrix, by all threads.
#pragma once

#include <cstdint>

#include "ranksvm/parallel.hpp"

namespace ranksvm {

// out[i] = x[rows[i]] for rows of `bytes` bytes that lie `stride` bytes apart; n rows are wanted.
// Throws std::invalid_argument for a row number that is not below `n_rows`.
void take_rows(const char* x, int64_t n_rows, int64_t stride, int64_t bytes, const int64_t* rows,
               int64_t n, char* out, const Context& context);

// The same for compressed rows: row r has the elements start[r] .. start[r + 1] of `column` and
// `value`, of which there are `n_elements`. Fills out_start, of n + 1 elements, whose last one is
// the number of elements that the others need room for.
template <class I>
void take_starts(const I* start, int64_t n_rows, int64_t n_elements, const int64_t* rows, int64_t n,
                 I* out_start);
template <class T, class I>
void take_elements(const I* start, const I* column, const T* value, const int64_t* rows, int64_t n,
                   const I* out_start, I* out_column, T* out_value, const Context& context);

}  // namespace ranksvm
