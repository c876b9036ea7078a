// Listed pairs of a ranking against two plain loops.
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"
#include "ranksvm/lambda_pairs.hpp"

namespace {

using ranksvm::Context;
using ranksvm::RankedGains;

void check_pairs(const std::vector<int64_t>& sizes, unsigned levels, int64_t truncation,
                 bool weighted, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> offsets{0};
  for (const int64_t n : sizes) offsets.push_back(offsets.back() + n);
  const auto n_items = static_cast<std::size_t>(offsets.back());
  std::vector<int64_t> order(n_items);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<double> gain(n_items), weight(n_items), discount(n_items + 1), factor(sizes.size());
  for (double& g : gain) g = static_cast<double>(random() % levels);
  for (double& w : weight) w = static_cast<double>(random() % 3) / 2;
  for (std::size_t r = 0; r < discount.size(); ++r) discount[r] = 1.0 / std::log2(2.0 + r);
  for (double& f : factor) f = 1.0 + static_cast<double>(random() % 5);
  const RankedGains ranked{gain.data(),
                           weighted ? weight.data() : nullptr,
                           order.data(),
                           offsets.data(),
                           static_cast<int64_t>(sizes.size()),
                           truncation,
                           discount.data(),
                           factor.data()};
  std::vector<int64_t> better, worse, starts{0};
  std::vector<double> weights;
  for (std::size_t q = 0; q < sizes.size(); ++q) {
    for (int64_t a = 0; a < sizes[q]; ++a) {
      for (int64_t b = a + 1; b < sizes[q]; ++b) {
        const int64_t upper = order[offsets[q] + a], lower = order[offsets[q] + b];
        if (a >= truncation || gain[upper] == gain[lower]) continue;
        better.push_back(gain[upper] > gain[lower] ? upper : lower);
        worse.push_back(gain[upper] > gain[lower] ? lower : upper);
        const double items = weighted ? weight[upper] * weight[lower] : 1.0;
        weights.push_back(items * (std::abs(gain[upper] - gain[lower]) *
                                   std::abs(discount[a] - discount[b]) * factor[q]));
      }
    }
    starts.push_back(static_cast<int64_t>(better.size()));
  }
  for (const int threads : {1, 2}) {
    std::vector<int64_t> counts(sizes.size(), -1);
    count_lambda_pairs(ranked, counts.data(), Context(threads));
    for (std::size_t q = 0; q < sizes.size(); ++q) CHECK_EQ(counts[q], starts[q + 1] - starts[q]);
    std::vector<int64_t> got_better(better.size(), -1), got_worse(worse.size(), -1);
    std::vector<double> got(weights.size(), std::nan(""));
    list_lambda_pairs(ranked, starts.data(), got_better.data(), got_worse.data(), got.data(),
                      Context(threads));
    CHECK(got_better == better);
    CHECK(got_worse == worse);
    CHECK(got == weights);
  }
}

}  // namespace

TEST(lambda_pairs_against_plain_loops) {
  unsigned seed = 0;
  for (const int64_t truncation : {1, 2, 5, 30, 1000000}) {
    for (const unsigned levels : {1U, 2U, 5U, 1000U}) {
      for (const bool weighted : {false, true}) {
        check_pairs({0, 1, 2, 7, 0, 40, 90}, levels, truncation, weighted, ++seed);
      }
    }
  }
  std::vector<int64_t> many(3000);
  for (std::size_t q = 0; q < many.size(); ++q) many[q] = static_cast<int64_t>(q % 30);
  check_pairs(many, 4, 10, true, ++seed);
  check_pairs({70000, 3}, 4, 3, false, ++seed);
}
