#include "ranksvm/products.hpp"

#include <algorithm>
#include <vector>

#include "ranksvm/simd.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kWork = int64_t{1} << 20;  // stored elements of one piece of work, about
constexpr int64_t kMostPieces = 16;          // pieces with a private vector each

// Row ranges of about equal work. With the row starts of a compressed matrix, `start`, by elements.
template <class I>
std::vector<int64_t> cut(const I* start, int64_t rows, int64_t pieces) {
  std::vector<int64_t> ends(pieces + 1, 0);
  const int64_t total = static_cast<int64_t>(start[rows]) - start[0];
  for (int64_t p = 1; p < pieces; ++p) {
    const auto goal = static_cast<I>(start[0] + total / pieces * p);
    ends[p] = std::lower_bound(start, start + rows, goal) - start;
  }
  ends[pieces] = rows;
  return ends;
}

std::vector<int64_t> cut_evenly(int64_t rows, int64_t pieces) {
  std::vector<int64_t> ends(pieces + 1);
  for (int64_t p = 0; p <= pieces; ++p) ends[p] = rows / pieces * p + std::min(p, rows % pieces);
  return ends;
}

// Pieces for a product whose pieces write apart from each other.
int64_t pieces_apart(int64_t elements, int64_t rows) {
  return std::clamp<int64_t>(elements / kWork, 1, std::max<int64_t>(rows, 1));
}

// Pieces for a product that adds into a vector of length n: each has its own, so few enough that
// these vectors stay small against the matrix.
int64_t pieces_adding(int64_t elements, int64_t n) {
  return std::clamp<int64_t>(elements / std::max<int64_t>(8 * n, kWork), 1, kMostPieces);
}

// out = sum over the pieces of what add(first row, last row, private vector) adds.
template <class Add>
void add_pieces(const std::vector<int64_t>& ends, int64_t n, double* out, const Context& context,
                Add add) {
  const std::size_t pieces = ends.size() - 1;
  if (pieces == 1) {
    std::fill_n(out, n, 0.0);
    context.check_interrupt();
    add(ends[0], ends[1], out);
    return;
  }
  std::vector<std::vector<double>> part(pieces);
  context.parallel_for(pieces, [&](std::size_t p, const Context&) {
    part[p].assign(n, 0.0);
    add(ends[p], ends[p + 1], part[p].data());
  });
  constexpr int64_t kSlice = 4096;
  context.parallel_for((n + kSlice - 1) / kSlice, [&](std::size_t s, const Context&) {
    const int64_t begin = static_cast<int64_t>(s) * kSlice, end = std::min(n, begin + kSlice);
    for (int64_t c = begin; c < end; ++c) out[c] = part[0][c];
    for (std::size_t p = 1; p < pieces; ++p) {
      const double* from = part[p].data();
      for (int64_t c = begin; c < end; ++c) out[c] += from[c];
    }
  });
}

// Sums at a few of many places; remembers which, so that emptying it costs no more than filling.
template <class I>
class TouchedSums {
 public:
  explicit TouchedSums(int64_t n) : sum_(n, 0.0) {}
  void add(I at, double value) {
    if (sum_[at] == 0.0) touched_.push_back(at);
    sum_[at] += value;
  }
  template <class Take>
  void drain(Take take) {
    for (const I at : touched_) {
      if (sum_[at] == 0.0) continue;  // cancelled, or mentioned twice
      take(at, sum_[at]);
      sum_[at] = 0.0;
    }
    touched_.clear();
  }

 private:
  std::vector<double> sum_;
  std::vector<I> touched_;
};

// The inner loops for the element type of a dense matrix.
auto dot_rows(const double*) { return simd_loops().dot_rows_double; }
auto dot_rows(const float*) { return simd_loops().dot_rows_float; }
auto add_rows(const double*) { return simd_loops().add_rows_double; }
auto add_rows(const float*) { return simd_loops().add_rows_float; }

// Four running sums: the additions do not wait for each other.
template <class T>
double sum_of_squares(const T* value, int64_t n, double scale) {
  double sum[4] = {};
  int64_t k = 0;
  for (; k + 4 <= n; k += 4) {
    for (int l = 0; l < 4; ++l) {
      const double x = scale * static_cast<double>(value[k + l]);
      sum[l] += x * x;
    }
  }
  for (; k < n; ++k) {
    const double x = scale * static_cast<double>(value[k]);
    sum[0] += x * x;
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

int64_t depth_of_product(int64_t rows, int64_t cols, int64_t elements, int64_t longest, bool dense,
                         bool transposed) {
  constexpr int64_t kFew = 8;  // the product itself, and the sums of running sums
  if (!transposed) return longest / (dense ? 8 : 4) + (dense ? 8 : 4) + kFew;
  if (dense && cols > rows) return rows / 4 + 4 + kFew;
  const int64_t pieces = std::min(pieces_adding(elements, cols), std::max<int64_t>(rows, 1));
  if (!dense) return rows + pieces + kFew;  // pieces are cut by elements: one may have most rows
  return rows / pieces / 4 + 4 + pieces + kFew;
}

template <class T>
void multiply(const DenseRows<T>& a, const double* x, double* out, const Context& context) {
  const auto ends = cut_evenly(a.rows, pieces_apart(a.rows * a.cols, a.rows));
  context.parallel_for(ends.size() - 1, [&](std::size_t p, const Context&) {
    dot_rows(a.data)(a.data + ends[p] * a.stride, ends[p + 1] - ends[p], a.cols, a.stride, x,
                     out + ends[p]);
  });
}

template <class T>
void multiply_transposed(const DenseRows<T>& a, const double* g, double* out,
                         const Context& context) {
  if (a.cols > a.rows) {  // a long sum vector: every piece has its own part of it
    const auto ends = cut_evenly(a.cols, pieces_apart(a.rows * a.cols, a.cols));
    context.parallel_for(ends.size() - 1, [&](std::size_t p, const Context&) {
      std::fill(out + ends[p], out + ends[p + 1], 0.0);
      add_rows(a.data)(a.data + ends[p], a.rows, ends[p + 1] - ends[p], a.stride, g, out + ends[p]);
    });
    return;
  }
  const auto ends = cut_evenly(a.rows, std::min<int64_t>(pieces_adding(a.rows * a.cols, a.cols),
                                                         std::max<int64_t>(a.rows, 1)));
  add_pieces(ends, a.cols, out, context, [&](int64_t first, int64_t last, double* sum) {
    add_rows(a.data)(a.data + first * a.stride, last - first, a.cols, a.stride, g + first, sum);
  });
}

template <class T, class I>
void multiply(const SparseRows<T, I>& a, const double* x, double* out, const Context& context) {
  const auto ends =
      cut(a.start, a.rows, pieces_apart(static_cast<int64_t>(a.start[a.rows]), a.rows));
  context.parallel_for(ends.size() - 1, [&](std::size_t p, const Context&) {
    for (int64_t r = ends[p]; r < ends[p + 1]; ++r) {
      double sum[4] = {};
      int64_t k = a.start[r];
      const int64_t end = a.start[r + 1];
      for (; k + 4 <= end; k += 4) {
        for (int l = 0; l < 4; ++l)
          sum[l] += static_cast<double>(a.value[k + l]) * x[a.column[k + l]];
      }
      for (; k < end; ++k) sum[0] += static_cast<double>(a.value[k]) * x[a.column[k]];
      out[r] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
  });
}

template <class T, class I>
void multiply_transposed(const SparseRows<T, I>& a, const double* g, double* out,
                         const Context& context) {
  const auto ends =
      cut(a.start, a.rows, pieces_adding(static_cast<int64_t>(a.start[a.rows]), a.cols));
  add_pieces(ends, a.cols, out, context, [&](int64_t first, int64_t last, double* sum) {
    for (int64_t r = first; r < last; ++r) {
      const double own = g[r];
      if (own == 0.0) continue;
      for (int64_t k = a.start[r]; k < a.start[r + 1]; ++k) {
        sum[a.column[k]] += own * static_cast<double>(a.value[k]);
      }
    }
  });
}

template <class T>
void squares_of_rows(const DenseRows<T>& a, double scale, double* out, const Context& context) {
  const auto ends = cut_evenly(a.rows, pieces_apart(a.rows * a.cols, a.rows));
  context.parallel_for(ends.size() - 1, [&](std::size_t p, const Context&) {
    for (int64_t r = ends[p]; r < ends[p + 1]; ++r) {
      out[r] = sum_of_squares(a.data + r * a.stride, a.cols, scale);
    }
  });
}

template <class T>
void squares_of_columns(const DenseRows<T>& a, double scale, double* out, const Context& context) {
  const auto ends = cut_evenly(a.cols, pieces_apart(a.rows * a.cols, a.cols));
  context.parallel_for(ends.size() - 1, [&](std::size_t p, const Context&) {
    std::fill(out + ends[p], out + ends[p + 1], 0.0);
    for (int64_t r = 0; r < a.rows; ++r) {
      const T* row = a.data + r * a.stride;
      for (int64_t c = ends[p]; c < ends[p + 1]; ++c) {
        const double x = scale * static_cast<double>(row[c]);
        out[c] += x * x;
      }
    }
  });
}

template <class T, class I>
void squares_of_rows(const SparseRows<T, I>& a, double scale, double* out, const Context& context) {
  const auto ends =
      cut(a.start, a.rows, pieces_apart(static_cast<int64_t>(a.start[a.rows]), a.rows));
  context.parallel_for(ends.size() - 1, [&](std::size_t p, const Context&) {
    for (int64_t r = ends[p]; r < ends[p + 1]; ++r) {
      out[r] = sum_of_squares(a.value + a.start[r], a.start[r + 1] - a.start[r], scale);
    }
  });
}

template <class T, class I>
void squares_of_columns(const SparseRows<T, I>& a, double scale, double* out,
                        const Context& context) {
  const auto ends =
      cut(a.start, a.rows, pieces_adding(static_cast<int64_t>(a.start[a.rows]), a.cols));
  add_pieces(ends, a.cols, out, context, [&](int64_t first, int64_t last, double* sum) {
    for (int64_t k = a.start[first]; k < a.start[last]; ++k) {
      const double x = scale * static_cast<double>(a.value[k]);
      sum[a.column[k]] += x * x;
    }
  });
}

template <class T, class I>
void scatter_diagonal(const SparseRows<T, I>& a, bool items_are_rows, const double* weight,
                      const Groups& groups, double* out, const Context& context) {
  std::vector<double> mass(groups.count, 0.0);
  for (int64_t g = 0; g < groups.count; ++g) {
    for (int64_t m = groups.offsets[g]; m < groups.offsets[g + 1]; ++m) {
      mass[g] += weight[groups.members[m]];
    }
  }
  const int64_t elements = a.start[a.rows];
  if (items_are_rows) {
    const auto ends = cut_evenly(groups.count, std::min(pieces_adding(elements, a.cols),
                                                        std::max<int64_t>(groups.count, 1)));
    add_pieces(ends, a.cols, out, context, [&](int64_t first, int64_t last, double* part) {
      TouchedSums<I> sums(a.cols);
      for (int64_t g = first; g < last; ++g) {
        for (int64_t m = groups.offsets[g]; m < groups.offsets[g + 1]; ++m) {
          const int64_t item = groups.members[m];
          for (int64_t k = a.start[item]; k < a.start[item + 1]; ++k) {
            const double x = a.value[k];
            part[a.column[k]] += weight[item] * x * x;
            sums.add(a.column[k], weight[item] * x);
          }
        }
        sums.drain([&](I c, double s) { part[c] -= s * s / mass[g]; });
      }
    });
    return;
  }
  const auto ends = cut(a.start, a.rows, pieces_apart(elements, a.rows));
  context.parallel_for(ends.size() - 1, [&](std::size_t p, const Context&) {
    TouchedSums<I> sums(groups.count);
    for (int64_t r = ends[p]; r < ends[p + 1]; ++r) {
      double square = 0.0;
      for (int64_t k = a.start[r]; k < a.start[r + 1]; ++k) {
        const double x = a.value[k], own = weight[a.column[k]];
        square += own * x * x;
        sums.add(static_cast<I>(groups.group[a.column[k]]), own * x);
      }
      sums.drain([&](I g, double s) { square -= s * s / mass[g]; });
      out[r] = square;
    }
  });
}

#define RANKSVM_SPARSE_PRODUCTS(T, I)                                                         \
  template void multiply(const SparseRows<T, I>&, const double*, double*, const Context&);    \
  template void multiply_transposed(const SparseRows<T, I>&, const double*, double*,          \
                                    const Context&);                                          \
  template void squares_of_rows(const SparseRows<T, I>&, double, double*, const Context&);    \
  template void squares_of_columns(const SparseRows<T, I>&, double, double*, const Context&); \
  template void scatter_diagonal(const SparseRows<T, I>&, bool, const double*, const Groups&, \
                                 double*, const Context&);
#define RANKSVM_PRODUCTS(T)                                                                       \
  template void multiply(const DenseRows<T>&, const double*, double*, const Context&);            \
  template void multiply_transposed(const DenseRows<T>&, const double*, double*, const Context&); \
  template void squares_of_rows(const DenseRows<T>&, double, double*, const Context&);            \
  template void squares_of_columns(const DenseRows<T>&, double, double*, const Context&);         \
  RANKSVM_SPARSE_PRODUCTS(T, int32_t)                                                             \
  RANKSVM_SPARSE_PRODUCTS(T, int64_t)
RANKSVM_PRODUCTS(float)
RANKSVM_PRODUCTS(double)
#undef RANKSVM_PRODUCTS
#undef RANKSVM_SPARSE_PRODUCTS

}  // namespace ranksvm
