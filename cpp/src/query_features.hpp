// What the features of dense and of sparse items share.
//
// Moments are those of y = scale * (x - min), which is small where the values are close together,
// whatever they are. `scale` is 1 unless the range could make a sum overflow or lose digits.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ranksvm/query_features.hpp"

namespace ranksvm {

constexpr int64_t kSum = 128;                        // values that are added up one by one
constexpr int64_t kBatch = int64_t{1} << 17;         // results that a thread takes at a time
constexpr int64_t kLarge = int64_t{1} << 20;         // of a query: for all threads together
constexpr int64_t kWorthThreads = int64_t{1} << 15;  // fewer are there before others have woken up

inline double square(double x) { return x * x; }

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
inline double rank_of(int64_t before, int64_t same, int64_t n) {
  return static_cast<double>(2 * before + same + 1) / static_cast<double>(2 * n);
}

inline void need_row(int64_t row, int64_t rows) {
  if (row < 0 || row >= rows) {
    throw std::invalid_argument("a query has row " + std::to_string(row) + ", but there are " +
                                std::to_string(rows));
  }
}

inline void need_size(int64_t n) {
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

}  // namespace ranksvm
