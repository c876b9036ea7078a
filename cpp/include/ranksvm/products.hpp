// Products with a matrix that is stored by rows, dense or compressed, float or double; sums are
// kept in double. A matrix stored by columns is the transpose of one stored by rows, so these two
// products serve every layout: multiply(A, x) = A x and multiply_transposed(A, g) = A' g.
//
// The pieces of the work, and so the order of every sum, depend on the shape of the matrix alone:
// every thread count gives the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "ranksvm/parallel.hpp"

namespace ranksvm {

template <class T>
struct DenseRows {
  const T* data;
  int64_t rows, cols, stride;  // stride: elements from one row to the next
};

template <class T, class I>
struct SparseRows {
  const I* start;   // [rows + 1]
  const I* column;  // [start[rows]], each in [0, cols)
  const T* value;
  int64_t rows, cols;
};

// A dense matrix in any order: element (r, c) at data[r * row_stride + c * col_stride].
template <class T>
struct Strided {
  const T* data;
  int64_t rows, cols, row_stride, col_stride;
};

// Rows group by group: those of group g at offsets[g] .. offsets[g + 1].
struct RowsInGroups {
  const int64_t* rows;
  const int64_t* offsets;
  int64_t groups;
};

// Weighted scatter of rows inside groups: sum over groups g and rows r of g of
// weight_r (x_r - mean_g)(x_r - mean_g)', mean_g being the weighted mean of the group. out has
// cols x cols elements. If these are not all rows, the result is divided by the share of the total
// weight that they hold.
template <class T>
void scatter(const Strided<T>& a, const double* weight, const RowsInGroups& sample, double* out,
             const Context& context);

// About one in `step` rows, or whole groups if `by_group`. A hash of the features chooses them, so
// the sample does not depend on the order of the rows.
struct RowSample {
  std::vector<int64_t> rows, offsets;
};
template <class T>
RowSample sample_rows(const Strided<T>& a, const int64_t* rows, const int64_t* offsets,
                      int64_t groups, int64_t step, bool by_group, const Context& context);

// The hashes that choose the sample: without `by_group`, the rows whose hash is a multiple of
// `step`; with it, the groups for which mix_hash of the largest hash of a row is.
template <class T>
void hash_rows(const Strided<T>& a, uint64_t* out, const Context& context);
uint64_t mix_hash(uint64_t x);

// Diagonal of the weighted scatter of items inside groups: by feature, the sum over groups of the
// weighted squared deviations from the weighted mean of the group. `items_are_rows` tells whether
// the rows of `a` are the items or the features. group[i] is the group of item i; `members` lists
// the items group by group, offsets[g] .. offsets[g + 1].
struct Groups {
  int64_t count;
  const int64_t* group;
  const int64_t* members;
  const int64_t* offsets;
};
template <class T, class I>
void scatter_diagonal(const SparseRows<T, I>& a, bool items_are_rows, const double* weight,
                      const Groups& groups, double* out, const Context& context);

// How often a term of an element of A x, or of A' g when transposed, is rounded at most: known from
// the order of the sums. `elements` are the stored ones, `longest` those of a row at most.
int64_t depth_of_product(int64_t rows, int64_t cols, int64_t elements, int64_t longest, bool dense,
                         bool transposed);

// Squared norms of the rows, and of the columns, of scale * A.
template <class T>
void squares_of_rows(const DenseRows<T>& a, double scale, double* out, const Context& context);
template <class T>
void squares_of_columns(const DenseRows<T>& a, double scale, double* out, const Context& context);
template <class T, class I>
void squares_of_rows(const SparseRows<T, I>& a, double scale, double* out, const Context& context);
template <class T, class I>
void squares_of_columns(const SparseRows<T, I>& a, double scale, double* out,
                        const Context& context);

template <class T>
void multiply(const DenseRows<T>& a, const double* x, double* out, const Context& context);
template <class T>
void multiply_transposed(const DenseRows<T>& a, const double* g, double* out,
                         const Context& context);
template <class T, class I>
void multiply(const SparseRows<T, I>& a, const double* x, double* out, const Context& context);
template <class T, class I>
void multiply_transposed(const SparseRows<T, I>& a, const double* g, double* out,
                         const Context& context);

}  // namespace ranksvm
