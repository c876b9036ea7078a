#include "ranksvm/products.hpp"

#include <algorithm>
#include <vector>

namespace ranksvm {
namespace {

constexpr int64_t kWork = int64_t{1} << 18;  // stored elements of one piece of work, about
constexpr int64_t kMostPieces = 32;          // pieces with a private vector each

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
    context.checkpoint();
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

// Eight running sums hide the latency of the additions and map to vector registers.
template <class T>
double dot(const T* a, const double* x, int64_t n) {
  double sum[8] = {};
  int64_t c = 0;
  for (; c + 8 <= n; c += 8) {
    for (int k = 0; k < 8; ++k) sum[k] += static_cast<double>(a[c + k]) * x[c + k];
  }
  double rest = 0.0;
  for (; c < n; ++c) rest += static_cast<double>(a[c]) * x[c];
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7])) + rest;
}

}  // namespace

template <class T>
void rows_dot(const DenseRows<T>& a, const double* x, double* out, const Context& context) {
  const auto ends = cut_evenly(a.rows, pieces_apart(a.rows * a.cols, a.rows));
  context.parallel_for(ends.size() - 1, [&](std::size_t p, const Context&) {
    for (int64_t r = ends[p]; r < ends[p + 1]; ++r) out[r] = dot(a.data + r * a.stride, x, a.cols);
  });
}

template <class T>
void rows_sum(const DenseRows<T>& a, const double* g, double* out, const Context& context) {
  const auto ends = cut_evenly(a.rows, std::min<int64_t>(pieces_adding(a.rows * a.cols, a.cols),
                                                         std::max<int64_t>(a.rows, 1)));
  add_pieces(ends, a.cols, out, context, [&](int64_t first, int64_t last, double* sum) {
    int64_t r = first;
    for (; r + 4 <= last; r += 4) {  // four rows a time: a quarter of the traffic on `sum`
      const T* row = a.data + r * a.stride;
      const T *row1 = row + a.stride, *row2 = row1 + a.stride, *row3 = row2 + a.stride;
      const double g0 = g[r], g1 = g[r + 1], g2 = g[r + 2], g3 = g[r + 3];
      for (int64_t c = 0; c < a.cols; ++c) {
        sum[c] += (g0 * row[c] + g1 * row1[c]) + (g2 * row2[c] + g3 * row3[c]);
      }
    }
    for (; r < last; ++r) {
      const T* row = a.data + r * a.stride;
      for (int64_t c = 0; c < a.cols; ++c) sum[c] += g[r] * row[c];
    }
  });
}

template <class T, class I>
void rows_dot(const SparseRows<T, I>& a, const double* x, double* out, const Context& context) {
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
void rows_sum(const SparseRows<T, I>& a, const double* g, double* out, const Context& context) {
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

#define RANKSVM_PRODUCTS(T)                                                                      \
  template void rows_dot(const DenseRows<T>&, const double*, double*, const Context&);           \
  template void rows_sum(const DenseRows<T>&, const double*, double*, const Context&);           \
  template void rows_dot(const SparseRows<T, int32_t>&, const double*, double*, const Context&); \
  template void rows_sum(const SparseRows<T, int32_t>&, const double*, double*, const Context&); \
  template void rows_dot(const SparseRows<T, int64_t>&, const double*, double*, const Context&); \
  template void rows_sum(const SparseRows<T, int64_t>&, const double*, double*, const Context&); \
  template void scatter_diagonal(const SparseRows<T, int32_t>&, bool, const double*,             \
                                 const Groups&, double*, const Context&);                        \
  template void scatter_diagonal(const SparseRows<T, int64_t>&, bool, const double*,             \
                                 const Groups&, double*, const Context&);
RANKSVM_PRODUCTS(float)
RANKSVM_PRODUCTS(double)
#undef RANKSVM_PRODUCTS

}  // namespace ranksvm
