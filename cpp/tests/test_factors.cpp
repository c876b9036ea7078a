// Sweeps over factors against all pairs, and long queries in chunks against short cuts.
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"
#include "ranksvm/factors.hpp"

namespace {

using ranksvm::Context;
using ranksvm::Order;
using Vector = std::vector<double>;

struct Set {
  Vector utility, v, t;
  std::vector<int64_t> rows, offsets{0};
  unsigned k;

  Order order(const Context& context) const {
    return Order(utility.data(), rows.data(), offsets.data(),
                 static_cast<int64_t>(offsets.size()) - 1, nullptr, nullptr, context);
  }
};

Set make(const std::vector<int64_t>& sizes, int levels, unsigned k, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> level(0, levels - 1);
  Set set;
  set.k = k;
  for (const int64_t n : sizes) set.offsets.push_back(set.offsets.back() + n);
  const auto n = static_cast<std::size_t>(set.offsets.back());
  set.rows.resize(n);
  std::iota(set.rows.begin(), set.rows.end(), 0);
  for (std::size_t i = 0; i < n; ++i) {
    set.utility.push_back(level(random));
    set.t.push_back(normal(random));
    for (unsigned f = 0; f < k; ++f) set.v.push_back(normal(random));
  }
  return set;
}

void check_against_all_pairs(const Set& set) {
  const std::size_t n = set.utility.size();
  const unsigned k = set.k;
  Vector c(n, 0.0), gradient(n * k, 0.0);
  for (std::size_t q = 0; q + 1 < set.offsets.size(); ++q) {
    for (int64_t i = set.offsets[q]; i < set.offsets[q + 1]; ++i) {
      for (int64_t j = set.offsets[q]; j < set.offsets[q + 1]; ++j) {
        if (!(set.utility[i] > set.utility[j])) continue;
        double product = 0.0;
        for (unsigned f = 0; f < k; ++f) {
          product += set.v[i * k + f] * set.v[j * k + f];
          gradient[i * k + f] += (set.t[i] - set.t[j]) * set.v[j * k + f];
          gradient[j * k + f] += (set.t[i] - set.t[j]) * set.v[i * k + f];
        }
        c[i] += product;
        c[j] -= product;
      }
    }
  }
  const Context context(2);
  const Order order = set.order(context);
  // Factors go by position.
  Vector found(n, -1.0), slope(n * k, -1.0), placed(n * k), sorted(n * k);
  for (std::size_t p = 0; p < n; ++p) {
    for (unsigned f = 0; f < k; ++f) placed[p * k + f] = set.v[order.row()[p] * k + f];
  }
  factor_coefficients(order, placed.data(), k, found.data(), context);
  factor_gradient(order, placed.data(), set.t.data(), k, sorted.data(), context);
  for (std::size_t p = 0; p < n; ++p) {
    for (unsigned f = 0; f < k; ++f) slope[order.row()[p] * k + f] = sorted[p * k + f];
  }
  for (std::size_t i = 0; i < n; ++i) CHECK_NEAR(found[i], c[i], 1e-9);
  for (std::size_t i = 0; i < n * k; ++i) CHECK_NEAR(slope[i], gradient[i], 1e-9);
}

}  // namespace

TEST(factor_sweeps_equal_all_pairs) {
  check_against_all_pairs(make({1}, 1, 1, 0));
  check_against_all_pairs(make({5, 1, 40, 2, 0, 17}, 3, 4, 1));
  check_against_all_pairs(make({30, 30}, 1, 5, 2));
  check_against_all_pairs(make({300}, 1000, 7, 3));
}

TEST(factor_sweeps_of_long_queries_do_not_depend_on_threads) {
  const auto long_query = static_cast<int64_t>(2 * ranksvm::kChunk + 11);
  for (const int levels : {2, 7, 1 << 30}) {
    const Set set = make({3, long_query}, levels, 2, 4);
    const std::size_t n = set.utility.size();
    Vector c[2], slope[2];
    for (const int threads : {1, 2}) {
      const Context context(threads);
      const Order order = set.order(context);
      c[threads - 1].resize(n);
      slope[threads - 1].resize(2 * n);
      factor_coefficients(order, set.v.data(), 2, c[threads - 1].data(), context);
      factor_gradient(order, set.v.data(), set.t.data(), 2, slope[threads - 1].data(), context);
    }
    CHECK(c[0] == c[1]);
    CHECK(slope[0] == slope[1]);
    // Every pair adds to one item what it takes from the other.
    double sum = 0.0, size = 0.0;
    for (const double one : c[0]) sum += one, size += std::abs(one);
    CHECK_NEAR(sum / size, 0.0, 1e-11);
    // Euler: F is quadratic in v, so <v, dF/dv> = 2 F = 2 <c, t>.
    double twice = 0.0, value = 0.0, scale = 0.0;
    for (std::size_t i = 0; i < 2 * n; ++i) twice += set.v[i] * slope[0][i];
    for (std::size_t i = 0; i < n; ++i) {
      value += c[0][i] * set.t[i];
      scale += std::abs(c[0][i] * set.t[i]);
    }
    CHECK_NEAR(twice / scale, 2.0 * value / scale, 1e-10);
  }
}
