#include "ranksvm/products.hpp"

#include <algorithm>
#include <vector>

#include "ranksvm/buffer.hpp"
#include "ranksvm/simd.hpp"

namespace ranksvm {
namespace {

// Stored elements of one piece of work, about: of pieces that write apart from each other, and of
// those with a private vector each, of which there are not too many.
constexpr int64_t kWork = int64_t{1} << 16, kWorkAdding = int64_t{1} << 17;
constexpr int64_t kMostPieces = 64;
// A matrix of fewer rows than this is cut into parts of rows, of this length.
constexpr int64_t kFewRows = 256, kLongRow = int64_t{1} << 15;
// So many groups or fewer are cut into pieces themselves.
constexpr int64_t kFewGroups = 4;
// Matrices with fewer elements are done before other threads have woken up.
constexpr int64_t kWorthThreads = int64_t{1} << 18;

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
int64_t pieces_apart(int64_t elements, int64_t rows, int64_t work = kWork) {
  return std::clamp<int64_t>(elements / work, 1, std::max<int64_t>(rows, 1));
}

// Pieces for a product that adds into a vector of length n: each has its own, so few enough that
// these vectors stay small against the matrix.
int64_t pieces_adding(int64_t elements, int64_t n) {
  return std::clamp<int64_t>(elements / std::max<int64_t>(16 * n, kWorkAdding), 1, kMostPieces);
}

// The threads that a pass over so many elements is worth.
Context team(int64_t elements, const Context& context) {
  return elements < kWorthThreads ? context.one_thread() : context;
}

// body(first, last) for the pieces that end at ends[1], ends[2], ...
template <class Body>
void for_each_piece(const std::vector<int64_t>& ends, const Context& context, Body body) {
  context.parallel_for(ends.size() - 1,
                       [&](std::size_t p, const Context&) { body(ends[p], ends[p + 1]); });
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
  Buffer<double> part(pieces * n, shared_memory());
  context.parallel_for(pieces, [&](std::size_t p, const Context&) {
    double* own = part.data() + p * n;
    std::fill_n(own, n, 0.0);
    add(ends[p], ends[p + 1], own);
  });
  constexpr int64_t kSlice = 1024;
  const auto slices = static_cast<std::size_t>((n + kSlice - 1) / kSlice);
  team(static_cast<int64_t>(pieces) * n, context)
      .parallel_for(slices, [&](std::size_t s, const Context&) {
        const int64_t begin = static_cast<int64_t>(s) * kSlice, end = std::min(n, begin + kSlice);
        std::copy(part.data() + begin, part.data() + end, out + begin);
        for (std::size_t p = 1; p < pieces; ++p) {
          const double* from = part.data() + p * n;
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
  // Adding up parts of a long row takes fewer additions than the parts save.
  if (!transposed) return longest / (dense ? 8 : 4) + (dense ? 8 : 4) + kFew;
  if (dense && cols > rows) return rows / 4 + 4 + kFew;
  const int64_t pieces = std::min(pieces_adding(elements, cols), std::max<int64_t>(rows, 1));
  if (!dense) return rows + pieces + kFew;  // pieces are cut by elements: one may have most rows
  return rows / pieces / 4 + 4 + pieces + kFew;
}

template <class T>
void multiply(const DenseRows<T>& a, const double* x, double* out, const Context& context) {
  const int64_t elements = a.rows * a.cols;
  const Context some = team(elements, context);
  if (a.rows < kFewRows && a.cols > kLongRow) {  // parts of rows
    const int64_t parts = (a.cols + kLongRow - 1) / kLongRow;
    std::vector<double> sums(a.rows * parts);
    some.parallel_for(sums.size(), [&](std::size_t i, const Context&) {
      const int64_t row = static_cast<int64_t>(i) / parts, part = static_cast<int64_t>(i) % parts;
      const int64_t begin = part * kLongRow, end = std::min(a.cols, begin + kLongRow);
      dot_rows(a.data)(a.data + row * a.stride + begin, 1, end - begin, a.stride, x + begin,
                       &sums[i]);
    });
    for (int64_t row = 0; row < a.rows; ++row) {
      out[row] = 0.0;
      for (int64_t part = 0; part < parts; ++part) out[row] += sums[row * parts + part];
    }
    return;
  }
  const auto ends = cut_evenly(a.rows, pieces_apart(elements, a.rows));
  for_each_piece(ends, some, [&](int64_t first, int64_t last) {
    dot_rows(a.data)(a.data + first * a.stride, last - first, a.cols, a.stride, x, out + first);
  });
}

template <class T>
void multiply_transposed(const DenseRows<T>& a, const double* g, double* out,
                         const Context& context) {
  const int64_t elements = a.rows * a.cols;
  const Context some = team(elements, context);
  if (a.cols > a.rows) {  // a long sum vector: every piece has its own part of it
    const auto ends = cut_evenly(a.cols, pieces_apart(elements, a.cols));
    for_each_piece(ends, some, [&](int64_t first, int64_t last) {
      std::fill(out + first, out + last, 0.0);
      add_rows(a.data)(a.data + first, a.rows, last - first, a.stride, g, out + first);
    });
    return;
  }
  const auto ends =
      cut_evenly(a.rows, std::min(pieces_adding(elements, a.cols), std::max<int64_t>(a.rows, 1)));
  add_pieces(ends, a.cols, out, some, [&](int64_t first, int64_t last, double* sum) {
    add_rows(a.data)(a.data + first * a.stride, last - first, a.cols, a.stride, g + first, sum);
  });
}

template <class T, class I>
void multiply(const SparseRows<T, I>& a, const double* x, double* out, const Context& context) {
  const auto elements = static_cast<int64_t>(a.start[a.rows]);
  const auto ends = cut(a.start, a.rows, pieces_apart(elements, a.rows));
  for_each_piece(ends, team(elements, context), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
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
  const auto elements = static_cast<int64_t>(a.start[a.rows]);
  const auto ends = cut(a.start, a.rows, pieces_adding(elements, a.cols));
  const auto add = [&](int64_t first, int64_t last, double* sum) {
    for (int64_t r = first; r < last; ++r) {
      const double own = g[r];
      if (own == 0.0) continue;
      for (int64_t k = a.start[r]; k < a.start[r + 1]; ++k) {
        sum[a.column[k]] += own * static_cast<double>(a.value[k]);
      }
    }
  };
  add_pieces(ends, a.cols, out, team(elements, context), add);
}

template <class T>
void squares_of_rows(const DenseRows<T>& a, double scale, double* out, const Context& context) {
  const int64_t elements = a.rows * a.cols;
  const auto ends = cut_evenly(a.rows, pieces_apart(elements, a.rows));
  for_each_piece(ends, team(elements, context), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      out[r] = sum_of_squares(a.data + r * a.stride, a.cols, scale);
    }
  });
}

template <class T>
void squares_of_columns(const DenseRows<T>& a, double scale, double* out, const Context& context) {
  const int64_t elements = a.rows * a.cols;
  const auto ends = cut_evenly(a.cols, pieces_apart(elements, a.cols));
  for_each_piece(ends, team(elements, context), [&](int64_t first, int64_t last) {
    std::fill(out + first, out + last, 0.0);
    for (int64_t r = 0; r < a.rows; ++r) {
      const T* row = a.data + r * a.stride;
      for (int64_t c = first; c < last; ++c) {
        const double x = scale * static_cast<double>(row[c]);
        out[c] += x * x;
      }
    }
  });
}

template <class T, class I>
void squares_of_rows(const SparseRows<T, I>& a, double scale, double* out, const Context& context) {
  const auto elements = static_cast<int64_t>(a.start[a.rows]);
  const auto ends = cut(a.start, a.rows, pieces_apart(elements, a.rows));
  for_each_piece(ends, team(elements, context), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      out[r] = sum_of_squares(a.value + a.start[r], a.start[r + 1] - a.start[r], scale);
    }
  });
}

template <class T, class I>
void squares_of_columns(const SparseRows<T, I>& a, double scale, double* out,
                        const Context& context) {
  const auto elements = static_cast<int64_t>(a.start[a.rows]);
  const auto ends = cut(a.start, a.rows, pieces_adding(elements, a.cols));
  const auto add = [&](int64_t first, int64_t last, double* sum) {
    for (int64_t k = a.start[first]; k < a.start[last]; ++k) {
      const double x = scale * static_cast<double>(a.value[k]);
      sum[a.column[k]] += x * x;
    }
  };
  add_pieces(ends, a.cols, out, team(elements, context), add);
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
  if (items_are_rows && groups.count <= kFewGroups) {  // pieces of groups
    std::fill_n(out, a.cols, 0.0);
    std::vector<double> moments(2 * a.cols);  // sums of squares, then sums
    for (int64_t g = 0; g < groups.count; ++g) {
      const int64_t* members = groups.members + groups.offsets[g];
      const int64_t size = groups.offsets[g + 1] - groups.offsets[g];
      const int64_t pieces =
          std::min(pieces_adding(elements, 2 * a.cols), std::max<int64_t>(size, 1));
      const auto add = [&](int64_t first, int64_t last, double* part) {
        for (int64_t m = first; m < last; ++m) {
          const double own = weight[members[m]];
          for (int64_t k = a.start[members[m]]; k < a.start[members[m] + 1]; ++k) {
            const double x = a.value[k];
            part[a.column[k]] += own * x * x;
            part[a.cols + a.column[k]] += own * x;
          }
        }
      };
      add_pieces(cut_evenly(size, pieces), 2 * a.cols, moments.data(), context, add);
      if (!(mass[g] > 0.0)) continue;
      for (int64_t c = 0; c < a.cols; ++c) {
        const double s = moments[a.cols + c];
        out[c] += moments[c] - s * s / mass[g];
      }
    }
    return;
  }
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
  // A piece has sums for all groups.
  const int64_t work = std::max<int64_t>(kWork, 16 * groups.count);
  const auto ends = cut(a.start, a.rows, pieces_apart(elements, a.rows, work));
  for_each_piece(ends, context, [&](int64_t first, int64_t last) {
    TouchedSums<I> sums(groups.count);
    for (int64_t r = first; r < last; ++r) {
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
