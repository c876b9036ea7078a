#include "ranksvm/columns.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace ranksvm {
namespace {

// Elements whose moments are found together, while they are in the cache; and of one piece of work.
constexpr int64_t kBlock = int64_t{1} << 14, kWork = int64_t{1} << 18;
constexpr int64_t kMostPieces = 64;
constexpr int64_t kRowsWork = int64_t{1} << 15;
// Matrices with fewer elements are done before other threads have woken up.
constexpr int64_t kWorthThreads = int64_t{1} << 16;

template <class T>
Context team(const Strided<T>& a, const Context& context) {
  return a.rows * a.cols < kWorthThreads ? context.one_thread() : context;
}

// Moments of some rows, for all columns.
struct Part {
  explicit Part(int64_t cols)
      : mean(cols, 0.0),
        squares(cols, 0.0),
        low(cols, std::numeric_limits<double>::infinity()),
        high(cols, -std::numeric_limits<double>::infinity()) {}

  // Takes in the moments of other rows (Chan, Golub & LeVeque 1983).
  void add(const Part& other) {
    if (!(other.weight > 0.0)) return;
    const double sum = weight + other.weight;
    const double share = other.weight / sum, cross = weight * share;
    for (std::size_t c = 0; c < mean.size(); ++c) {
      const double apart = other.mean[c] - mean[c];
      mean[c] += share * apart;
      squares[c] += other.squares[c] + cross * apart * apart;
      low[c] = std::min(low[c], other.low[c]);
      high[c] = std::max(high[c], other.high[c]);
    }
    weight = sum;
  }

  double weight = 0.0;
  std::vector<double> mean, squares, low, high;
};

// body(r, c, x) for all elements, along the direction in which they lie in memory.
template <class T, class Body>
void for_each_element(const Strided<T>& a, int64_t first, int64_t last, Body body) {
  if (a.row_stride >= a.col_stride) {
    for (int64_t r = first; r < last; ++r) {
      const T* x = a.data + r * a.row_stride;
      for (int64_t c = 0; c < a.cols; ++c) body(r, c, static_cast<double>(x[c * a.col_stride]));
    }
    return;
  }
  for (int64_t c = 0; c < a.cols; ++c) {
    const T* x = a.data + c * a.col_stride;
    for (int64_t r = first; r < last; ++r) body(r, c, static_cast<double>(x[r * a.row_stride]));
  }
}

template <class T>
void find_block(const Strided<T>& a, int64_t first, int64_t last, const double* weight,
                const double* factor, Part& block) {
  block = Part(a.cols);
  for (int64_t r = first; r < last; ++r) block.weight += weight == nullptr ? 1.0 : weight[r];
  if (!(block.weight > 0.0)) return;
  for_each_element(a, first, last, [&](int64_t r, int64_t c, double x) {
    const double w = weight == nullptr ? 1.0 : weight[r];
    if (w == 0.0) return;
    block.mean[c] += w * (factor[c] * x);
    block.low[c] = std::min(block.low[c], x);
    block.high[c] = std::max(block.high[c], x);
  });
  for (double& one : block.mean) one /= block.weight;
  for_each_element(a, first, last, [&](int64_t r, int64_t c, double x) {
    const double w = weight == nullptr ? 1.0 : weight[r];
    if (w == 0.0) return;  // in other units, such a value may be infinite
    const double off = factor[c] * x - block.mean[c];
    block.squares[c] += w * (off * off);
  });
}

// body(first, last) for pieces of the rows.
template <class T, class Body>
void for_each_piece(const Strided<T>& a, const Context& context, Body body) {
  const int64_t rows = std::max<int64_t>(1, kRowsWork / std::max<int64_t>(1, a.cols));
  const auto pieces = static_cast<std::size_t>((a.rows + rows - 1) / rows);
  team(a, context).parallel_for(pieces, [&](std::size_t p, const Context&) {
    const int64_t first = static_cast<int64_t>(p) * rows;
    body(first, std::min(a.rows, first + rows));
  });
}

}  // namespace

template <class T>
double column_moments(const Strided<T>& a, const double* weight, const double* factor,
                      const ColumnMoments& out, const Context& context) {
  const int64_t pieces = std::clamp<int64_t>(a.rows * a.cols / kWork, 1, kMostPieces);
  const int64_t height = std::max<int64_t>(1, kBlock / std::max<int64_t>(1, a.cols));
  std::vector<Part> part(pieces, Part(a.cols));
  team(a, context).parallel_for(part.size(), [&](std::size_t p, const Context& inner) {
    const int64_t begin = a.rows * static_cast<int64_t>(p) / pieces;
    const int64_t end = a.rows * (static_cast<int64_t>(p) + 1) / pieces;
    Part block(a.cols);
    for (int64_t r = begin; r < end; r += height) {
      inner.check_interrupt();
      find_block(a, r, std::min(end, r + height), weight, factor, block);
      part[p].add(block);
    }
  });
  for (int64_t p = 1; p < pieces; ++p) part[0].add(part[p]);
  std::copy(part[0].mean.begin(), part[0].mean.end(), out.mean);
  std::copy(part[0].squares.begin(), part[0].squares.end(), out.squares);
  std::copy(part[0].low.begin(), part[0].low.end(), out.low);
  std::copy(part[0].high.begin(), part[0].high.end(), out.high);
  return part[0].weight;
}

template <class T>
void scale_columns(const Strided<T>& a, const double* offset, const double* factor, double* out,
                   const Context& context) {
  for_each_piece(a, context, [&](int64_t first, int64_t last) {
    for_each_element(a, first, last, [&](int64_t r, int64_t c, double x) {
      // Halves, because the difference of two numbers may overflow.
      out[r * a.cols + c] = 2.0 * ((0.5 * x - 0.5 * offset[c]) * factor[c]);
    });
  });
}

template <class T>
void map_columns(const Strided<T>& a, const double* knots, const double* levels, int64_t n,
                 double* out, const Context& context) {
  for_each_piece(a, context, [&](int64_t first, int64_t last) {
    for_each_element(a, first, last, [&](int64_t r, int64_t c, double x) {
      const double *knot = knots + c * n, *level = levels + c * n;
      double& to = out[r * a.cols + c];
      const int64_t k = std::upper_bound(knot, knot + n, x) - knot;  // the first knot above x
      if (k == 0) {
        to = level[0];
      } else if (k == n) {
        to = level[n - 1];
      } else {
        const double width = 0.5 * knot[k] - 0.5 * knot[k - 1];
        const double share = (0.5 * x - 0.5 * knot[k - 1]) / width;
        to = level[k - 1] + std::clamp(share, 0.0, 1.0) * (level[k] - level[k - 1]);
      }
    });
  });
}

#define RANKSVM_COLUMNS(T)                                                                     \
  template double column_moments(const Strided<T>&, const double*, const double*,              \
                                 const ColumnMoments&, const Context&);                        \
  template void scale_columns(const Strided<T>&, const double*, const double*, double*,        \
                              const Context&);                                                 \
  template void map_columns(const Strided<T>&, const double*, const double*, int64_t, double*, \
                            const Context&);
RANKSVM_COLUMNS(float)
RANKSVM_COLUMNS(double)
#undef RANKSVM_COLUMNS

}  // namespace ranksvm
