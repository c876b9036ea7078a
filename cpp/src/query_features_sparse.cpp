// Sparse items: the stored elements of a query are distributed to their columns, and what the zeros
// of a column get is computed once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "query_features.hpp"
#include "ranksvm/buffer.hpp"
#include "ranksvm/sort.hpp"

namespace ranksvm {
namespace {

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

#define RANKSVM_SPARSE(T, I, O)                                                               \
  template void query_features(const SparseRows<T, I>&, const RowsInGroups&,                  \
                               const std::vector<QueryFeature>&, const QueryFeatureTable<O>&, \
                               const Context&);
#define RANKSVM_BOTH(T, O)      \
  RANKSVM_SPARSE(T, int32_t, O) \
  RANKSVM_SPARSE(T, int64_t, O)
RANKSVM_BOTH(float, float)
RANKSVM_BOTH(float, double)
RANKSVM_BOTH(double, float)
RANKSVM_BOTH(double, double)
#undef RANKSVM_BOTH
#undef RANKSVM_SPARSE

}  // namespace ranksvm
