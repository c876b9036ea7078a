// Explicit pairs against a loop over them.
//
// Weights and payloads are small multiples of 1/4: their sums do not depend on the order, so
// results are compared exactly.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.hpp"
#include "ranksvm/pair_list.hpp"

namespace {

using ranksvm::Context;
using ranksvm::PairList;
using Vector = std::vector<double>;

struct Instance {
  int64_t n_items;
  std::vector<int64_t> better, worse;
  Vector weight;  // may be empty
  Vector score, payload;
  double factor = 1.0;

  std::shared_ptr<PairList> list(const Context& context) const {
    auto made = std::make_shared<PairList>(better.data(), worse.data(),
                                           weight.empty() ? nullptr : weight.data(),
                                           static_cast<int64_t>(better.size()), n_items, context);
    made->set_factor(factor);
    return made;
  }
};

// Few items make for duplicates and contradictions; item 0 is in every fourth pair.
Instance make(int64_t n_items, int64_t n_pairs, bool weighted, unsigned seed) {
  std::mt19937_64 random(seed);
  Instance in;
  in.n_items = n_items;
  for (int64_t p = 0; p < n_pairs; ++p) {
    const auto b = static_cast<int64_t>(p % 4 == 0 ? 0 : random() % n_items);
    const auto step = static_cast<int64_t>(1 + random() % (n_items - 1));
    in.better.push_back(b);
    in.worse.push_back((b + step) % n_items);
    if (weighted) in.weight.push_back(static_cast<double>(random() % 5) / 4);
  }
  for (int64_t i = 0; i < n_items; ++i) {
    in.score.push_back(static_cast<double>(random() % 13) / 4);
    in.payload.push_back(static_cast<double>(random() % 17) / 4 - 2);
  }
  if (weighted) in.factor = 0.5;
  return in;
}

struct Statistics {
  double total = 0.0;
  Vector above, below, imbalance, sum_above, sum_below, laplacian;
  explicit Statistics(int64_t n, double value)
      : above(n, value),
        below(n, value),
        imbalance(n, value),
        sum_above(n, value),
        sum_below(n, value),
        laplacian(n, value) {}
};

Statistics brute_force(const Instance& in, double margin) {
  Statistics s(in.n_items, 0.0);
  for (std::size_t p = 0; p < in.better.size(); ++p) {
    const int64_t b = in.better[p], w = in.worse[p];
    if (!(in.score[b] - in.score[w] < margin)) continue;
    const double weight = in.factor * (in.weight.empty() ? 1.0 : in.weight[p]);
    s.total += weight;
    s.above[w] += weight;
    s.below[b] += weight;
    s.imbalance[w] += weight;
    s.imbalance[b] -= weight;
    s.sum_above[w] += weight * in.payload[b];
    s.sum_below[b] += weight * in.payload[w];
    const double difference = weight * (in.payload[w] - in.payload[b]);
    s.laplacian[w] += difference;
    s.laplacian[b] -= difference;
  }
  return s;
}

Statistics of_plan(const Instance& in, double margin, const Context& context) {
  const auto plan =
      ranksvm::make_pair_list_plan(in.list(context), in.score.data(), margin, context);
  Statistics s(in.n_items, std::nan(""));  // what is not written equals nothing
  s.total = plan->total();
  plan->counts(s.above.data(), s.below.data(), context);
  plan->imbalance(s.imbalance.data(), context);
  plan->sums(in.payload.data(), s.sum_above.data(), s.sum_below.data(), context);
  plan->laplacian(in.payload.data(), s.laplacian.data(), context);
  return s;
}

void check_same(const Statistics& got, const Statistics& expected) {
  CHECK_EQ(got.total, expected.total);
  CHECK(got.above == expected.above);
  CHECK(got.below == expected.below);
  CHECK(got.imbalance == expected.imbalance);
  CHECK(got.sum_above == expected.sum_above);
  CHECK(got.sum_below == expected.sum_below);
  CHECK(got.laplacian == expected.laplacian);
}

}  // namespace

TEST(pair_list_against_brute_force) {
  unsigned seed = 0;
  for (const int64_t n_items : {2, 3, 17, 1000, 50000}) {
    for (const int64_t n_pairs : {1, 2, 50, 3000, 100000}) {
      for (const bool weighted : {false, true}) {
        const Instance in = make(n_items, n_pairs, weighted, ++seed);
        for (const double margin : {1.0, 0.5}) {
          const Statistics expected = brute_force(in, margin);
          for (const int threads : {1, 2, 5}) {
            check_same(of_plan(in, margin, Context(threads)), expected);
          }
        }
      }
    }
  }
}

TEST(pair_list_gives_the_same_bits_for_every_number_of_threads) {
  Instance in = make(30000, 200000, true, 7);
  std::mt19937_64 random(8);
  std::normal_distribution<double> normal;
  for (double& v : in.weight) v = std::abs(normal(random));
  for (double& v : in.score) v = normal(random);
  for (double& v : in.payload) v = normal(random);
  in.factor = 1.0 / 3.0;
  const Statistics one = of_plan(in, 1.0, Context(1));
  for (const int threads : {2, 3, 8}) check_same(of_plan(in, 1.0, Context(threads)), one);
}

TEST(pair_list_counts_contradictions_and_connects_items) {
  unsigned seed = 100;
  for (const int64_t n_items : {2, 3, 10, 60}) {
    for (const int64_t n_pairs : {0, 1, 5, 30, 500}) {
      const Instance in = make(n_items, n_pairs, false, ++seed);
      std::vector<std::vector<bool>> over(n_items, std::vector<bool>(n_items));
      std::vector<int64_t> first(n_items), found(n_items, -1);
      std::iota(first.begin(), first.end(), 0);
      for (std::size_t p = 0; p < in.better.size(); ++p) {
        over[in.better[p]][in.worse[p]] = true;
        const int64_t a = first[in.better[p]], b = first[in.worse[p]];
        std::replace(first.begin(), first.end(), std::max(a, b), std::min(a, b));
      }
      int64_t both = 0;
      for (int64_t i = 0; i < n_items; ++i) {
        for (int64_t j = 0; j < i; ++j) both += over[i][j] && over[j][i];
      }
      const auto list = in.list(Context(1));
      CHECK_EQ(ranksvm::count_contradictions(*list, Context(2)), both);
      ranksvm::connected_items(*list, found.data(), Context(2));
      CHECK(found == first);
    }
  }
}

TEST(pair_list_takes_ties_as_violated_whatever_their_size) {
  for (const double score : {0.0, 1e308, -1e16, 5e-324}) {
    Instance in = make(2, 1, false, 1);
    in.better = {0};
    in.worse = {1};
    in.score = {score, score};
    CHECK_EQ(of_plan(in, 1e-300, Context(1)).total, 1.0);
  }
}

TEST(pair_list_without_pairs_or_items) {
  const Instance in = make(3, 0, false, 1);
  check_same(of_plan(in, 1.0, Context(2)), brute_force(in, 1.0));
  const PairList empty(nullptr, nullptr, nullptr, 0, 0, Context(1));
  CHECK_EQ(empty.pairs(), 0);
  CHECK_EQ(empty.pieces(), 0U);
}

TEST(pair_list_refuses_rows_and_scores_that_are_none) {
  for (const int64_t row : {int64_t{-1}, int64_t{3}, int64_t{1} << 40}) {
    Instance in = make(3, 5, false, 1);
    in.better[4] = row;
    CHECK_THROWS(in.list(Context(1)), std::invalid_argument);
    std::swap(in.better, in.worse);
    CHECK_THROWS(in.list(Context(1)), std::invalid_argument);
  }
  for (const double score : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Instance in = make(3, 5, false, 1);
    in.score[2] = score;
    CHECK_THROWS(of_plan(in, 1.0, Context(2)), std::overflow_error);
  }
}

TEST(pair_list_stops_when_asked_to) {
  const Instance in = make(1000, 1 << 20, false, 1);
  const Context stopping(1, [] { return true; });
  const auto list = in.list(Context(1));
  bool stopped = false;
  for (int k = 0; k < 10000 && !stopped; ++k) {  // it asks every 50 ms
    try {
      ranksvm::make_pair_list_plan(list, in.score.data(), 1.0, stopping);
    } catch (const ranksvm::Interrupted&) {
      stopped = true;
    }
  }
  CHECK(stopped);
}
