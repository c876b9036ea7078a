// Dense items: the values of some columns of a query are gathered into a block, row by row, in
// which all columns are worked on side by side. Ranks of short queries are counted: the rank of an
// item follows from the number of items with less minus the number with more, and comparing all
// pairs without a branch takes less time than sorting. Columns of longer queries are sorted.
//
// Sparse items: the stored elements of a query are distributed to their columns, and what the zeros
// of a column get is computed once.
//
// Moments are those of y = scale * (x - min), which is small where the values are close together,
// whatever they are. `scale` is 1 unless the range could make a sum overflow or lose digits.
#include "ranksvm/query_features.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "ranksvm/buffer.hpp"
#include "ranksvm/simd.hpp"
#include "ranksvm/sort.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kCounted = 384;                    // items of a query whose ranks are counted
constexpr int64_t kBlock = int64_t{1} << 12;         // numbers of a block of a short query
constexpr int64_t kWidest = 512;                     // columns of a block
constexpr int64_t kColumns = 2;                      // of a block of a longer query
constexpr int64_t kSum = 128;                        // values that are added up one by one
constexpr int64_t kBatch = int64_t{1} << 17;         // results that a thread takes at a time
constexpr int64_t kLarge = int64_t{1} << 20;         // of a query: for all threads together
constexpr int64_t kWorthThreads = int64_t{1} << 15;  // fewer are there before others have woken up

double square(double x) { return x * x; }

// The feature of a value x is ((x * scale - low) - shift) / divisor.
struct Formula {
  double scale, low, shift, divisor;
  double operator()(double x) const { return ((x * scale - low) - shift) / divisor; }
};

// Of one column of a query.
struct Moments {
  double scale = 1.0, low = 0.0, range = 0.0;  // low and range times scale
  double mean = 0.0, spread = 0.0;             // of scale * (x - min)

  Moments() = default;
  Moments(double least, double most) {
    constexpr double kHuge = 0x1p900, kTiny = 0x1p-900;
    const double plain = most - least;  // perhaps infinite
    if (plain > kHuge) scale = 0x1p-100;
    if (plain > 0.0 && plain < kTiny) scale = 0x1p200;
    low = least * scale;
    range = most * scale - low;
  }
  double above_low(double x) const { return x * scale - low; }
  // `sum` is that of above_low, `squares` that of ((above_low - mean) / range)^2.
  void set_mean(double sum, int64_t n) { mean = sum / static_cast<double>(n); }
  void set_spread(double squares, int64_t n) {
    spread = range * std::sqrt(squares / static_cast<double>(n));
  }
  double inverse_range() const { return range > 0.0 ? 1.0 / range : 0.0; }

  Formula formula(QueryFeature feature) const {
    if (feature == QueryFeature::mean_diff) return {scale, low, mean, scale};
    const bool is_shifted = feature == QueryFeature::zscore;
    const double divisor = is_shifted ? spread : range;
    return {scale, low, is_shifted ? mean : 0.0, range > 0.0 ? divisor : 1.0};
  }
};

// Which features are wanted, and so what has to be found out for them.
struct Wanted {
  const std::vector<QueryFeature>& features;
  bool moments = false, means = false, spreads = false;

  explicit Wanted(const std::vector<QueryFeature>& all) : features(all) {
    for (const QueryFeature one : all) {
      moments |= one != QueryFeature::rank;
      spreads |= one == QueryFeature::zscore;
      means |= one == QueryFeature::zscore || one == QueryFeature::mean_diff;
    }
  }
};

// The feature "rank" of an item of a query of n: `before` items have less, `same` as much.
double rank_of(int64_t before, int64_t same, int64_t n) {
  return static_cast<double>(2 * before + same + 1) / static_cast<double>(2 * n);
}

void need_row(int64_t row, int64_t rows) {
  if (row < 0 || row >= rows) {
    throw std::invalid_argument("a query has row " + std::to_string(row) + ", but there are " +
                                std::to_string(rows));
  }
}

void need_size(int64_t n) {
  if (n > static_cast<int64_t>(std::numeric_limits<uint32_t>::max())) {
    throw std::length_error("a query has " + std::to_string(n) +
                            " items; at most 2^32 - 1 are supported");
  }
}

// Calls batch(first, last) for short queries first .. last - 1 at a time, each on one thread, and
// large(q, context) for every large one with all threads. `width` is the number of results of an
// item.
template <class Batch, class Large>
void for_each_batch(const RowsInGroups& groups, int64_t width, const Context& context,
                    Batch&& batch, Large&& large) {
  const int64_t *ends = groups.offsets, n = groups.groups;
  std::vector<std::pair<int64_t, int64_t>> batches;
  std::vector<int64_t> alone;
  int64_t begin = 0;
  const auto close = [&](int64_t q) {
    if (q > begin) batches.emplace_back(begin, q);
  };
  for (int64_t q = 0; q < n; ++q) {
    need_size(ends[q + 1] - ends[q]);
    const bool is_large = ends[q + 1] - ends[q] > kLarge / width;
    if (is_large || ends[q + 1] - ends[begin] > kBatch / width) {
      close(q);
      begin = is_large ? q + 1 : q;
    }
    if (is_large) alone.push_back(q);
  }
  close(n);
  (ends[n] < kWorthThreads / width ? context.one_thread() : context)
      .parallel_for(batches.size(), [&](std::size_t b, const Context& serial) {
        batch(batches[b].first, batches[b].second, serial);
      });
  for (const int64_t q : alone) large(q, context);
}

// --- Dense items ---------------------------------------------------------------------------------

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

// --- Sparse items --------------------------------------------------------------------------------

// The stored elements of a query. One thread uses it for many queries, or all threads for one.
template <class T, class I, class O>
class SparseQuery {
 public:
  SparseQuery(const SparseRows<T, I>& x, const RowsInGroups& groups, const Wanted& wanted,
              const QueryFeatureTable<O>& out)
      : x_(x), groups_(groups), wanted_(wanted), out_(out), kinds_(wanted.features.size()) {}

  void run(int64_t q, const Context& context) {
    rows_ = groups_.rows + groups_.offsets[q];
    n_ = groups_.offsets[q + 1] - groups_.offsets[q];
    distribute();
    const int64_t cols = x_.cols;
    zero_.resize(kinds_ * static_cast<std::size_t>(cols));
    result_.resize(kinds_ * element_.size());
    // Pieces by size, whatever the number of threads.
    const int64_t per_column = static_cast<int64_t>(element_.size()) / cols + 1;
    in_pieces(cols, 4096 / per_column + 1, context, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) compute(c);
    });
    in_pieces(n_, kBatch / 4 / cols + 1, context, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) write(i);
    });
  }

 private:
  struct Element {
    double value;
    int64_t place;  // among the elements of the query, row by row
  };

  template <class Body>
  static void in_pieces(int64_t n, int64_t step, const Context& context, Body&& body) {
    context.parallel_for(static_cast<std::size_t>((n + step - 1) / step),
                         [&](std::size_t piece, const Context&) {
                           const int64_t begin = static_cast<int64_t>(piece) * step;
                           body(begin, std::min(n, begin + step));
                         });
  }

  // Elements by column, and where those of a row begin among all.
  void distribute() {
    const auto cols = static_cast<std::size_t>(x_.cols);
    begin_.assign(cols + 1, 0);
    row_begin_.resize(static_cast<std::size_t>(n_) + 1);
    int64_t total = 0;
    for (int64_t i = 0; i < n_; ++i) {
      need_row(rows_[i], x_.rows);
      row_begin_[i] = total;
      const int64_t from = x_.start[rows_[i]], to = x_.start[rows_[i] + 1];
      for (int64_t e = from; e < to; ++e) {
        if (x_.column[e] < 0 || x_.column[e] >= x_.cols) {
          throw std::invalid_argument("an element lies in column " + std::to_string(x_.column[e]) +
                                      ", but there are " + std::to_string(x_.cols));
        }
        ++begin_[static_cast<std::size_t>(x_.column[e]) + 1];
      }
      total += to - from;
    }
    row_begin_[n_] = total;
    for (std::size_t c = 0; c < cols; ++c) begin_[c + 1] += begin_[c];
    end_.assign(begin_.begin(), begin_.end() - 1);
    element_.resize(static_cast<std::size_t>(total));
    for (int64_t i = 0, place = 0; i < n_; ++i) {
      for (int64_t e = x_.start[rows_[i]]; e < x_.start[rows_[i] + 1]; ++e, ++place) {
        element_[end_[x_.column[e]]++] = {static_cast<double>(x_.value[e]) + 0.0, place};
      }
    }
  }

  // The results of the elements of a column, and of its zeros.
  void compute(int64_t c) {
    Element *first = element_.data() + begin_[c], *last = element_.data() + begin_[c + 1];
    const Moments moments = wanted_.moments ? moments_of(first, last) : Moments();
    for (std::size_t k = 0; k < kinds_; ++k) {
      O* result = result_.data() + k * element_.size();
      O& zero = zero_[k * static_cast<std::size_t>(x_.cols) + c];
      if (wanted_.features[k] == QueryFeature::rank) {
        zero = ranks(first, last, result);
      } else {
        const Formula formula = moments.formula(wanted_.features[k]);
        for (const Element* e = first; e < last; ++e) {
          result[e->place] = static_cast<O>(formula(e->value));
        }
        zero = static_cast<O>(formula(0.0));
      }
    }
  }

  // The sum of value(x) over the elements, and over the zeros that are not stored.
  template <class Value>
  double add_up(const Element* first, const Element* last, Value&& value) const {
    double sum = value(0.0) * static_cast<double>(n_ - (last - first));
    for (const Element* begin = first; begin < last; begin += std::min(kSum, last - begin)) {
      double part = 0.0;
      for (const Element* e = begin; e < begin + std::min(kSum, last - begin); ++e) {
        part += value(e->value);
      }
      sum += part;
    }
    return sum;
  }

  Moments moments_of(const Element* first, const Element* last) const {
    const bool has_zeros = last - first < n_;
    double least = has_zeros ? 0.0 : first->value, most = least;
    for (const Element* e = first; e < last; ++e) {
      least = std::min(least, e->value);
      most = std::max(most, e->value);
    }
    Moments m(least, most);
    if (!wanted_.means) return m;
    m.set_mean(add_up(first, last, [&](double x) { return m.above_low(x); }), n_);
    if (!wanted_.spreads) return m;
    const double factor = m.inverse_range();
    m.set_spread(
        add_up(first, last, [&](double x) { return square((m.above_low(x) - m.mean) * factor); }),
        n_);
    return m;
  }

  // Sorts the elements; returns the rank of zeros.
  O ranks(Element* first, Element* last, O* result) const {
    std::sort(first, last, [](const Element& a, const Element& b) { return a.value < b.value; });
    const int64_t size = last - first, unstored = n_ - size;
    const Element* positive = first;
    while (positive < last && positive->value < 0.0) ++positive;
    const int64_t negative = positive - first;
    while (positive < last && !(positive->value > 0.0)) ++positive;
    const int64_t zeros = positive - first - negative + unstored;
    const auto zero = static_cast<O>(rank_of(negative, zeros, n_));
    for (int64_t begin = 0, end = 0; begin < size; begin = end) {
      while (end < size && first[end].value == first[begin].value) ++end;
      const double value = first[begin].value;
      const O rank =
          value == 0.0
              ? zero
              : static_cast<O>(rank_of(begin + (value > 0.0 ? unstored : 0), end - begin, n_));
      for (int64_t p = begin; p < end; ++p) result[first[p].place] = rank;
    }
    return zero;
  }

  void write(int64_t i) const {
    const int64_t from = x_.start[rows_[i]], size = row_begin_[i + 1] - row_begin_[i];
    for (std::size_t k = 0; k < kinds_; ++k) {
      O* line = out_.data + rows_[i] * out_.row_stride + static_cast<int64_t>(k) * x_.cols;
      std::copy_n(zero_.data() + k * static_cast<std::size_t>(x_.cols), x_.cols, line);
      const O* result = result_.data() + k * element_.size() + row_begin_[i];
      for (int64_t e = 0; e < size; ++e) line[x_.column[from + e]] = result[e];
    }
  }

  const SparseRows<T, I>& x_;
  const RowsInGroups& groups_;
  const Wanted& wanted_;
  const QueryFeatureTable<O>& out_;
  const std::size_t kinds_;

  const int64_t* rows_ = nullptr;  // of the query
  int64_t n_ = 0;                  // number of them
  std::vector<Element> element_;   // by column
  std::vector<int64_t> begin_, end_, row_begin_;
  std::vector<O> zero_;    // [features][columns]
  std::vector<O> result_;  // [features][elements], by place
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

template <class T, class I, class O>
void query_features(const SparseRows<T, I>& x, const RowsInGroups& groups,
                    const std::vector<QueryFeature>& features, const QueryFeatureTable<O>& out,
                    const Context& context) {
  if (x.cols == 0 || features.empty()) return;
  const Wanted wanted(features);
  for_each_batch(
      groups, x.cols, context,
      [&](int64_t first, int64_t last, const Context& serial) {
        SparseQuery<T, I, O> query(x, groups, wanted, out);
        for (int64_t q = first; q < last; ++q) {
          serial.check_interrupt();
          if (groups.offsets[q + 1] > groups.offsets[q]) query.run(q, serial);
        }
      },
      [&](int64_t q, const Context& all) {
        SparseQuery<T, I, O>(x, groups, wanted, out).run(q, all);
      });
}

#define RANKSVM_DENSE(T, O)                                                                   \
  template void query_features(const Strided<T>&, const RowsInGroups&,                        \
                               const std::vector<QueryFeature>&, const QueryFeatureTable<O>&, \
                               const Context&);
#define RANKSVM_SPARSE(T, I, O)                                                               \
  template void query_features(const SparseRows<T, I>&, const RowsInGroups&,                  \
                               const std::vector<QueryFeature>&, const QueryFeatureTable<O>&, \
                               const Context&);
#define RANKSVM_BOTH(T, O)      \
  RANKSVM_DENSE(T, O)           \
  RANKSVM_SPARSE(T, int32_t, O) \
  RANKSVM_SPARSE(T, int64_t, O)
RANKSVM_BOTH(float, float)
RANKSVM_BOTH(float, double)
RANKSVM_BOTH(double, float)
RANKSVM_BOTH(double, double)
#undef RANKSVM_BOTH
#undef RANKSVM_SPARSE
#undef RANKSVM_DENSE

}  // namespace ranksvm
