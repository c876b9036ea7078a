// Moments and scaled columns, against plain loops.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "check.hpp"
#include "ranksvm/columns.hpp"

using namespace ranksvm;

namespace {

struct Found {
  explicit Found(int64_t cols) : mean(cols), squares(cols), low(cols), high(cols) {}
  ColumnMoments pointers() { return {mean.data(), squares.data(), low.data(), high.data()}; }
  bool operator==(const Found&) const = default;
  std::vector<double> mean, squares, low, high;
};

template <class T>
std::vector<T> random_matrix(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(3.0, 2.0);
  std::vector<T> x(n);
  for (T& one : x) one = static_cast<T>(normal(random));
  return x;
}

template <class T>
void check_moments(int64_t rows, int64_t cols, bool by_rows, bool weighted) {
  const std::vector<T> x = random_matrix<T>(rows * cols, 7);
  const Strided<T> a{x.data(), rows, cols, by_rows ? cols : 1, by_rows ? 1 : rows};
  std::vector<double> weight(rows), factor(cols, 2.0);
  for (int64_t r = 0; r < rows; ++r) weight[r] = weighted ? static_cast<double>(r % 3) : 1.0;
  Found one(cols);
  const double total = column_moments(a, weighted ? weight.data() : nullptr, factor.data(),
                                      one.pointers(), Context(1));
  double expected = 0.0;
  for (const double w : weight) expected += w;
  CHECK(std::fabs(total - expected) < 1e-9);
  for (int64_t c = 0; c < cols; ++c) {
    double mean = 0.0, squares = 0.0, low = 1e300, high = -1e300;
    const auto at = [&](int64_t r) {
      return static_cast<double>(x[r * a.row_stride + c * a.col_stride]);
    };
    for (int64_t r = 0; r < rows; ++r) {
      mean += weight[r] * 2.0 * at(r) / total;
      if (weight[r] > 0.0) {
        low = std::min(low, at(r));
        high = std::max(high, at(r));
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      squares += weight[r] * (2.0 * at(r) - mean) * (2.0 * at(r) - mean);
    }
    CHECK(std::fabs(one.mean[c] - mean) < 1e-9);
    CHECK(std::fabs(one.squares[c] - squares) < 1e-9 * squares + 1e-9);
    CHECK(one.low[c] == low && one.high[c] == high);
  }
  for (const int threads : {2, 3, 16}) {
    Found other(cols);
    column_moments(a, weighted ? weight.data() : nullptr, factor.data(), other.pointers(),
                   Context(threads));
    CHECK(one == other);
  }
}

}  // namespace

TEST(moments_of_columns) {
  for (const bool by_rows : {true, false}) {
    for (const bool weighted : {true, false}) {
      check_moments<double>(2, 1, by_rows, weighted);
      check_moments<double>(50'000, 9, by_rows, weighted);
      check_moments<float>(3'000, 46, by_rows, weighted);
    }
  }
}

TEST(moments_of_no_rows) {
  Found found(2);
  const std::vector<double> factor(2, 1.0);
  const Strided<double> a{nullptr, 0, 2, 2, 1};
  CHECK(column_moments(a, nullptr, factor.data(), found.pointers(), Context(1)) == 0.0);
  CHECK(found.low[0] > found.high[0]);
}

TEST(columns_are_scaled_and_mapped) {
  const int64_t rows = 9'000, cols = 7;
  const std::vector<double> x = random_matrix<double>(rows * cols, 3);
  for (const bool by_rows : {true, false}) {
    const Strided<double> a{x.data(), rows, cols, by_rows ? cols : 1, by_rows ? 1 : rows};
    const std::vector<double> offset(cols, 1.0), factor(cols, 0.5);
    std::vector<double> knots, levels;  // the map x -> 2 x from -1 to 4, constant outside
    for (int64_t c = 0; c < cols; ++c) {
      for (const double knot : {-1.0, 0.0, 4.0, 4.0}) {
        knots.push_back(knot);
        levels.push_back(2.0 * knot);
      }
    }
    std::vector<double> scaled(rows * cols), mapped(rows * cols);
    for (const int threads : {1, 3}) {
      scale_columns(a, offset.data(), factor.data(), scaled.data(), Context(threads));
      map_columns(a, knots.data(), levels.data(), 4, mapped.data(), Context(threads));
      bool right = true;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          const double own = x[r * a.row_stride + c * a.col_stride];
          right &= scaled[r * cols + c] == (own - 1.0) * 0.5;
          right &= std::fabs(mapped[r * cols + c] - 2.0 * std::clamp(own, -1.0, 4.0)) < 1e-12;
        }
      }
      CHECK(right);
    }
  }
}
