// Facts about the columns of a matrix, and matrices whose columns are rescaled.
//
// Pieces depend on the shape of the matrix alone: every thread count gives the same bits.
#pragma once

#include <cstdint>

#include "ranksvm/parallel.hpp"
#include "ranksvm/products.hpp"

namespace ranksvm {

// Weighted mean of every column, sum of weighted squares of the deviations from it, lowest and
// highest value, over the rows of positive weight. Each has one element per column.
struct ColumnMoments {
  double *mean, *squares, *low, *high;
};

// Moments of factor[c] * x; low and high are those of x itself. Without weights (null) every row
// has weight 1. Returns the total weight; without any, mean and squares are zero, and low > high.
template <class T>
double column_moments(const Strided<T>& a, const double* weight, const double* factor,
                      const ColumnMoments& out, const Context& context);

// out = (x - offset) * factor for every column; out has contiguous rows.
template <class T>
void scale_columns(const Strided<T>& a, const double* offset, const double* factor, double* out,
                   const Context& context);

// out = level at x, linear between the knots of the column, constant outside of them. There are n
// knots and levels for each column; knots ascend, and the last ones may be equal.
template <class T>
void map_columns(const Strided<T>& a, const double* knots, const double* levels, int64_t n,
                 double* out, const Context& context);

}  // namespace ranksvm
