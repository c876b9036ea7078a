// Products with a matrix that is stored by rows, dense or compressed, float or double; sums are kept
// in double. A matrix stored by columns is the transpose of one stored by rows, so these two products
// serve every layout: rows_dot(A, x) = A x and rows_sum(A, g) = A' g.
//
// The pieces of the work, and so the order of every sum, depend on the shape of the matrix alone:
// every thread count gives the same bits.
#pragma once

#include <cstdint>

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

template <class T>
void rows_dot(const DenseRows<T>& a, const double* x, double* out, const Context& context);
template <class T>
void rows_sum(const DenseRows<T>& a, const double* g, double* out, const Context& context);
template <class T, class I>
void rows_dot(const SparseRows<T, I>& a, const double* x, double* out, const Context& context);
template <class T, class I>
void rows_sum(const SparseRows<T, I>& a, const double* g, double* out, const Context& context);

}  // namespace ranksvm
