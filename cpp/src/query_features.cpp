// Dense items: the values of some columns of a query are gathered into a block, row by row, in
// which all columns are worked on side by side. Ranks of short queries are counted: the rank of an
// item follows from the number of items with less minus the number with more, and comparing all
// pairs without a branch takes less time than sorting. Columns of longer queries are sorted.
#include "query_features.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "ranksvm/buffer.hpp"
#include "ranksvm/simd.hpp"
#include "ranksvm/sort.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kCounted = 384;             // items of a query whose ranks are counted
constexpr int64_t kBlock = int64_t{1} << 12;  // numbers of a block of a short query
constexpr int64_t kWidest = 512;              // columns of a block
constexpr int64_t kColumns = 2;               // of a block of a longer query

// Some columns of a query, and what is computed from them. One thread uses it for many queries.
template <class T, class O>
class DenseQuery {
 public:
  DenseQuery(const Strided<T>& x, const RowsInGroups& groups, const Wanted& wanted,
             const QueryFeatureTable<O>& out, const std::shared_ptr<Memory>& memory)
      : x_(x), groups_(groups), wanted_(wanted), out_(out), memory_(memory) {}

  // Whether ranks are counted. The last of few columns fill only a part of a vector.
  static bool is_counted(int64_t n, int64_t cols) {
    return n * ((cols + 7) / 8 * 8) <= kCounted * cols;
  }
  // Columns of a block of a query of n items.
  static int64_t width(int64_t n, int64_t cols) {
    if (!is_counted(n, cols)) return kColumns;
    return std::min(std::clamp(kBlock / std::max<int64_t>(n, 1) / 8 * 8, int64_t{8}, kWidest),
                    (cols + 7) / 8 * 8);
  }

  // Columns first .. first + width of query q, as many of them as there are.
  void run(int64_t q, int64_t first, int64_t width, const Context& context) {
    rows_ = groups_.rows + groups_.offsets[q];
    n_ = groups_.offsets[q + 1] - groups_.offsets[q];
    first_ = first;
    cols_ = std::min(width, x_.cols - first);
    width_ = width;
    gather();
    if (wanted_.moments) find_moments();
    for (std::size_t k = 0; k < wanted_.features.size(); ++k) {
      const QueryFeature feature = wanted_.features[k];
      O* to = out_.data + static_cast<int64_t>(k) * x_.cols + first;
      if (feature != QueryFeature::rank) {
        write_formula(feature, to);
      } else if (is_counted(n_, x_.cols)) {
        write_counted_ranks(to);
      } else {
        write_sorted_ranks(to, context);
      }
    }
  }

 private:
  // A sum with a zero makes a zero of a negative one.
  void gather() {
    value_.resize(static_cast<std::size_t>(n_ * width_));
    double* to = value_.data();
    for (int64_t i = 0; i < n_; ++i) need_row(rows_[i], x_.rows);
    if (x_.col_stride == 1) {
      for (int64_t i = 0; i < n_; ++i, to += width_) {
        const T* from = x_.data + rows_[i] * x_.row_stride + first_;
        for (int64_t c = 0; c < cols_; ++c) to[c] = static_cast<double>(from[c]) + 0.0;
        for (int64_t c = cols_; c < width_; ++c) to[c] = 0.0;
      }
      return;
    }
    for (int64_t c = 0; c < width_; ++c) {
      const T* from = x_.data + (first_ + c) * x_.col_stride;
      for (int64_t i = 0; i < n_; ++i) {
        to[i * width_ + c] =
            c < cols_ ? static_cast<double>(from[rows_[i] * x_.row_stride]) + 0.0 : 0.0;
      }
    }
  }

  // Sums of value(x, column) over the items, for every column: of kSum items, then of these sums.
  template <class Value>
  void add_up(Value&& value) {
    const auto width = static_cast<std::size_t>(width_);
    sum_.assign(width, 0.0);
    part_.resize(width);
    double *sum = sum_.data(), *part = part_.data();
    for (int64_t begin = 0; begin < n_; begin += kSum) {
      std::fill_n(part, width_, 0.0);
      for (int64_t i = begin; i < std::min(n_, begin + kSum); ++i) {
        const double* x = value_.data() + i * width_;
        for (int64_t c = 0; c < width_; ++c) part[c] += value(x[c], c);
      }
      for (int64_t c = 0; c < width_; ++c) sum[c] += part[c];
    }
  }

  void find_moments() {
    const auto width = static_cast<std::size_t>(width_);
    least_.assign(value_.begin(), value_.begin() + width_);
    most_ = least_;
    double *least = least_.data(), *most = most_.data();
    for (int64_t i = 1; i < n_; ++i) {
      const double* x = value_.data() + i * width_;
      for (int64_t c = 0; c < width_; ++c) least[c] = x[c] < least[c] ? x[c] : least[c];
      for (int64_t c = 0; c < width_; ++c) most[c] = x[c] > most[c] ? x[c] : most[c];
    }
    moments_.resize(width);
    for (int64_t c = 0; c < width_; ++c) moments_[c] = Moments(least[c], most[c]);
    if (!wanted_.means) return;
    // The arrays of the formula serve the sums as well.
    set_formula([](const Moments& m) { return Formula{m.scale, m.low, 0.0, 1.0}; });
    const double *scale = scale_.data(), *low = low_.data();
    add_up([=](double x, int64_t c) { return x * scale[c] - low[c]; });
    for (int64_t c = 0; c < width_; ++c) moments_[c].set_mean(sum_[c], n_);
    if (!wanted_.spreads) return;
    set_formula([](const Moments& m) {
      return Formula{m.scale, m.low, m.mean, m.inverse_range()};  // a factor here
    });
    const double *mean = shift_.data(), *factor = divisor_.data();
    add_up([=](double x, int64_t c) {
      return square(((x * scale[c] - low[c]) - mean[c]) * factor[c]);
    });
    for (int64_t c = 0; c < width_; ++c) moments_[c].set_spread(sum_[c], n_);
  }

  template <class Of>
  void set_formula(Of&& of) {
    const auto width = static_cast<std::size_t>(width_);
    for (auto* array : {&scale_, &low_, &shift_, &divisor_}) array->resize(width);
    for (std::size_t c = 0; c < width; ++c) {
      const Formula f = of(moments_[c]);
      scale_[c] = f.scale, low_[c] = f.low, shift_[c] = f.shift, divisor_[c] = f.divisor;
    }
  }

  O* row_of(O* to, int64_t i) const { return to + rows_[i] * out_.row_stride; }

  void write_formula(QueryFeature feature, O* to) {
    set_formula([feature](const Moments& m) { return m.formula(feature); });
    const double *scale = scale_.data(), *low = low_.data(), *shift = shift_.data(),
                 *divisor = divisor_.data();
    for (int64_t i = 0; i < n_; ++i) {
      const double* x = value_.data() + i * width_;
      O* line = row_of(to, i);
      for (int64_t c = 0; c < cols_; ++c) {
        line[c] = static_cast<O>(((x[c] * scale[c] - low[c]) - shift[c]) / divisor[c]);
      }
    }
  }

  void write_counted_ranks(O* to) {
    net_.resize(static_cast<std::size_t>(n_ * width_));
    simd_loops().net_counts(value_.data(), n_, width_, net_.data());
    // before - after goes from 1 - n to n - 1, and before + after + same = n.
    ranks_.resize(static_cast<std::size_t>(2 * n_));
    for (int64_t net = 1 - n_; net < n_; ++net) {
      ranks_[net + n_ - 1] =
          static_cast<O>(static_cast<double>(n_ + 1 + net) / static_cast<double>(2 * n_));
    }
    const O* rank = ranks_.data() + (n_ - 1);
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t* net = net_.data() + i * width_;
      O* line = row_of(to, i);
      for (int64_t c = 0; c < cols_; ++c) line[c] = rank[net[c]];
    }
  }

  void write_sorted_ranks(O* to, const Context& context) {
    const auto n = static_cast<std::size_t>(n_);
    Buffer<double> key(n, memory_), sorted(n, memory_);
    Buffer<uint32_t> order(n, memory_);
    Buffer<O> rank(static_cast<std::size_t>(n_ * cols_), memory_);
    for (int64_t c = 0; c < cols_; ++c) {
      context.check_interrupt();
      for (int64_t i = 0; i < n_; ++i) key[i] = value_[i * width_ + c];
      argsort(key.data(), static_cast<uint32_t>(n_), order.data(), sorted.data(), memory_, context);
      for (int64_t begin = 0, end = 0; begin < n_; begin = end) {
        while (end < n_ && sorted[end] == sorted[begin]) ++end;
        const auto value = static_cast<O>(rank_of(begin, end - begin, n_));
        for (int64_t p = begin; p < end; ++p) rank[order[p] * cols_ + c] = value;
      }
    }
    for (int64_t i = 0; i < n_; ++i) {
      std::copy_n(rank.data() + i * cols_, cols_, row_of(to, i));
    }
  }

  const Strided<T>& x_;
  const RowsInGroups& groups_;
  const Wanted& wanted_;
  const QueryFeatureTable<O>& out_;
  const std::shared_ptr<Memory>& memory_;

  const int64_t* rows_ = nullptr;             // of the query
  int64_t n_ = 0;                             // number of them
  int64_t first_ = 0, cols_ = 0, width_ = 0;  // columns first_ .. first_ + cols_, then zeros
  std::vector<double> value_;                 // [n][width]
  std::vector<int64_t> net_;                  // [n][width]
  std::vector<O> ranks_;                      // by before - after
  std::vector<Moments> moments_;              // [width], as all that follow
  std::vector<double> scale_, low_, shift_, divisor_, least_, most_, sum_, part_;
};

}  // namespace

template <class T, class O>
void query_features(const Strided<T>& x, const RowsInGroups& groups,
                    const std::vector<QueryFeature>& features, const QueryFeatureTable<O>& out,
                    const Context& context) {
  if (x.cols == 0 || features.empty()) return;
  const Wanted wanted(features);
  const auto memory = std::make_shared<Memory>();
  const auto some = [&] { return DenseQuery<T, O>(x, groups, wanted, out, memory); };
  for_each_batch(
      groups, x.cols, context,
      [&](int64_t first, int64_t last, const Context& serial) {
        auto query = some();
        for (int64_t q = first; q < last; ++q) {
          const int64_t n = groups.offsets[q + 1] - groups.offsets[q];
          if (n == 0) continue;
          const int64_t width = DenseQuery<T, O>::width(n, x.cols);
          for (int64_t c = 0; c < x.cols; c += width) query.run(q, c, width, serial);
        }
      },
      [&](int64_t q, const Context& all) {
        const int64_t n = groups.offsets[q + 1] - groups.offsets[q];
        const int64_t width = DenseQuery<T, O>::width(n, x.cols);
        const auto blocks = static_cast<std::size_t>((x.cols + width - 1) / width);
        const auto block = [&](std::size_t b, const Context& inner) {
          some().run(q, static_cast<int64_t>(b) * width, width, inner);
        };
        if (blocks >= static_cast<std::size_t>(all.threads())) {
          all.parallel_for(blocks, block);
        } else {  // the sort of a column has work for all
          for (std::size_t b = 0; b < blocks; ++b) block(b, all);
        }
      });
}

#define RANKSVM_DENSE(T, O)                                                                   \
  template void query_features(const Strided<T>&, const RowsInGroups&,                        \
                               const std::vector<QueryFeature>&, const QueryFeatureTable<O>&, \
                               const Context&);
RANKSVM_DENSE(float, float)
RANKSVM_DENSE(float, double)
RANKSVM_DENSE(double, float)
RANKSVM_DENSE(double, double)
#undef RANKSVM_DENSE

}  // namespace ranksvm
