// Every way of counting against all pairs, and all of them against each other on large queries.
//
// Weights and payloads are small multiples of 1/4 where results are compared exactly: their sums do
// not depend on the order.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "ranksvm/plan.hpp"

namespace {

using ranksvm::Context;
using ranksvm::Counting;
using ranksvm::Order;
using ranksvm::Plan;
using ranksvm::Sorted;
using Vector = std::vector<double>;

constexpr Counting kAll[] = {Counting::automatic, Counting::tree, Counting::direct,
                             Counting::joachims, Counting::pairs};

// Items in shuffled rows.
struct Instance {
  Vector utility, score, payload, item_weight, query_weight;  // by row; weights may be empty
  Vector worse_weight;                                        // if not empty, by role
  std::vector<int64_t> rows, offsets{0};
  double margin = 1.0;
  bool by_gain = false;

  int64_t size() const { return offsets.back(); }
  std::size_t queries() const { return offsets.size() - 1; }
  double weight(int64_t row) const { return item_weight.empty() ? 1.0 : item_weight[row]; }
  double of_query(std::size_t q) const { return query_weight.empty() ? 1.0 : query_weight[q]; }
  double of_pair(int64_t worse, int64_t better) const {
    const double as_worse = worse_weight.empty() ? weight(worse) : worse_weight[worse];
    return as_worse * weight(better) * (by_gain ? utility[better] - utility[worse] : 1.0);
  }
  // No weight of a pair is larger than some small number times this.
  double scale() const {
    return by_gain && size() > 0 ? *std::max_element(utility.begin(), utility.end()) : 1.0;
  }

  std::shared_ptr<Order> order(const Context& context) const {
    return std::make_shared<Order>(utility.data(), rows.data(), offsets.data(),
                                   static_cast<int64_t>(queries()),
                                   item_weight.empty() ? nullptr : item_weight.data(),
                                   query_weight.empty() ? nullptr : query_weight.data(), context,
                                   by_gain, worse_weight.empty() ? nullptr : worse_weight.data());
  }
};

enum class Spread { normal, ties, equal, outliers, tiny };

Instance make(const std::vector<int64_t>& sizes, uint32_t levels, Spread spread, bool weighted,
              unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Instance in;
  for (const int64_t n : sizes) in.offsets.push_back(in.offsets.back() + n);
  const auto n = static_cast<std::size_t>(in.size());
  in.rows.resize(n);
  std::iota(in.rows.begin(), in.rows.end(), 0);
  std::shuffle(in.rows.begin(), in.rows.end(), random);
  for (std::size_t q = 0; q + 1 < in.offsets.size(); ++q) {  // ascending inside each query
    std::sort(in.rows.begin() + in.offsets[q], in.rows.begin() + in.offsets[q + 1]);
  }
  std::vector<uint32_t> distinct(n);
  std::iota(distinct.begin(), distinct.end(), 0U);
  std::shuffle(distinct.begin(), distinct.end(), random);
  for (std::size_t i = 0; i < n; ++i) {
    in.utility.push_back(levels == 0 ? distinct[i] : static_cast<double>(random() % levels));
    double s = normal(random);
    if (spread == Spread::ties) s = static_cast<double>(random() % 13) / 4;
    if (spread == Spread::equal) s = 0.3;
    if (spread == Spread::outliers && random() % 10 == 0) s = random() % 2 == 0 ? 1e300 : -1e300;
    if (spread == Spread::tiny) s *= 1e-310;
    in.score.push_back(s);
    in.payload.push_back(static_cast<double>(random() % 17) / 4 - 2);
    if (weighted) in.item_weight.push_back(static_cast<double>(random() % 5) / 2);
  }
  for (std::size_t q = 0; weighted && q < sizes.size(); ++q) {
    in.query_weight.push_back(static_cast<double>(random() % 4) / 2);
  }
  in.margin = seed % 2 == 0 ? 1.0 : 0.5;
  return in;
}

// Everything that a plan tells.
struct Statistics {
  double total = 0.0;
  Vector above, below, imbalance, sum_above, sum_below, laplacian, score_laplacian;
  explicit Statistics(std::size_t n)
      : above(n),
        below(n),
        imbalance(n),
        sum_above(n),
        sum_below(n),
        laplacian(n),
        score_laplacian(n) {}
};

Statistics brute_force(const Instance& in) {
  Statistics s(in.size());
  for (std::size_t q = 0; q < in.queries(); ++q) {
    for (int64_t a = in.offsets[q]; a < in.offsets[q + 1]; ++a) {
      for (int64_t b = in.offsets[q]; b < in.offsets[q + 1]; ++b) {
        const int64_t worse = in.rows[a], better = in.rows[b];
        if (!(in.utility[worse] < in.utility[better])) continue;
        if (!(in.score[better] - in.score[worse] < in.margin)) continue;
        const double weight = in.of_query(q) * in.of_pair(worse, better);
        s.total += weight;
        s.above[worse] += weight;
        s.below[better] += weight;
        s.imbalance[worse] += weight;
        s.imbalance[better] -= weight;
        s.sum_above[worse] += weight * in.payload[better];
        s.sum_below[better] += weight * in.payload[worse];
        const double difference = weight * (in.payload[worse] - in.payload[better]);
        s.laplacian[worse] += difference;
        s.laplacian[better] -= difference;
        const double gap = weight * (in.score[worse] - in.score[better]);
        s.score_laplacian[worse] += gap;
        s.score_laplacian[better] -= gap;
      }
    }
  }
  return s;
}

Statistics of_plan(const Instance& in, const Plan& plan, const Context& context) {
  Statistics s(in.size());
  // What is not written stays NaN, and equals nothing.
  for (Vector* v : {&s.above, &s.below, &s.imbalance, &s.sum_above, &s.sum_below, &s.laplacian,
                    &s.score_laplacian}) {
    std::fill(v->begin(), v->end(), std::nan(""));
  }
  s.total = plan.total();
  plan.counts(s.above.data(), s.below.data(), context);
  plan.imbalance(s.imbalance.data(), context);
  plan.sums(in.payload.data(), s.sum_above.data(), s.sum_below.data(), context);
  plan.laplacian(in.payload.data(), s.laplacian.data(), context);
  plan.score_laplacian(in.score.data(), s.score_laplacian.data(), context);
  return s;
}

Statistics compute(const Instance& in, Counting counting, bool products, const Context& context) {
  const auto order = in.order(context);
  const bool all = counting != Counting::automatic && counting != Counting::pairs;
  std::unique_ptr<Plan> plan;
  {
    const Sorted sorted(order, in.score.data(), all, context);
    plan = ranksvm::make_plan(sorted, in.margin, counting, products, context);
  }  // the plan does not need it any more
  return of_plan(in, *plan, context);
}

bool near(const Vector& a, const Vector& b, double tolerance) {
  bool ok = a.size() == b.size();
  for (std::size_t i = 0; ok && i < a.size(); ++i) ok = std::abs(a[i] - b[i]) <= tolerance;
  return ok;
}

void check_same(const Instance& in, const Statistics& got, const Statistics& expected) {
  CHECK_EQ(got.total, expected.total);
  CHECK(got.above == expected.above);
  CHECK(got.below == expected.below);
  CHECK(got.imbalance == expected.imbalance);
  const double n = static_cast<double>(in.size()) * in.scale();
  CHECK(near(got.sum_above, expected.sum_above, 1e-12 * n));
  CHECK(near(got.sum_below, expected.sum_below, 1e-12 * n));
  CHECK(near(got.laplacian, expected.laplacian, 1e-12 * n));
  double largest = 0.0;
  for (const double s : in.score) largest = std::max(largest, std::abs(s));
  CHECK(near(got.score_laplacian, expected.score_laplacian, 1e-12 * n * largest));
}

// Weights of the items as the worse one of a pair: 0 for every third, as for censored times.
Vector by_role(const Instance& in) {
  Vector weight(in.score.size());
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<double>(i * 7 % 3) / 2;
  return weight;
}

void check_against_brute_force(Instance in) {
  for (const int kind : {0, 1, 2}) {
    in.by_gain = kind == 1;
    in.worse_weight = kind == 2 ? by_role(in) : Vector();
    const Statistics expected = brute_force(in);
    for (const Counting counting : kAll) {
      for (const int threads : {1, 2}) {
        for (const bool products : {false, true}) {
          check_same(in, compute(in, counting, products, Context(threads)), expected);
        }
      }
    }
  }
}

}  // namespace

TEST(margin_ranks_against_all_pairs) {
  std::mt19937_64 random(1);
  for (const uint32_t n : {0U, 1U, 2U, 50U, 300U}) {
    for (int kind = 0; kind < 6; ++kind) {
      Vector s(n);
      for (double& v : s) {
        v = kind == 0   ? std::normal_distribution<double>()(random)
            : kind == 1 ? static_cast<double>(random() % 9) / 4
            : kind == 2 ? 0.0
            : kind == 3 ? 1e16 + static_cast<double>(random() % 5) * 2
            : kind == 4 ? (random() % 2 == 0 ? 1.7e308 : -1.7e308)
                        : 1e-310 * static_cast<double>(random() % 100);
      }
      std::sort(s.begin(), s.end());
      for (const double margin : {1.0, 0.5, 1e-300}) {
        std::vector<uint32_t> hi(n, UINT32_MAX), lo(n, UINT32_MAX);
        ranksvm::margin_ranks(s.data(), n, margin, hi.data(), lo.data(), Context(2));
        bool right = true;
        for (uint32_t i = 0; i < n; ++i) {
          uint32_t expected_hi = 0, expected_lo = 0;
          for (uint32_t j = 0; j < n; ++j) {
            expected_hi += s[j] - s[i] < margin;
            expected_lo += s[i] - s[j] >= margin;
          }
          right &= hi[i] == expected_hi && lo[i] == expected_lo;
        }
        CHECK(right);
      }
    }
  }
}

TEST(margin_ranks_in_chunks) {
  // More than two chunks; every thread count gives the ranks that bisection finds.
  std::mt19937_64 random(2);
  for (const uint32_t n : {65536U, 65537U, 98304U, 150000U}) {
    for (const double width : {1e-3, 1.0, 30.0, 1e5}) {  // from all within the margin to few
      Vector s(n);
      for (double& v : s) v = width * std::uniform_real_distribution<double>()(random);
      for (uint32_t i = 0; i < n; i += 3) s[i] = std::round(s[i]);
      std::sort(s.begin(), s.end());
      std::vector<uint32_t> expected_hi(n), expected_lo(n);
      for (uint32_t i = 0; i < n; ++i) {
        const double own = s[i];
        expected_hi[i] = static_cast<uint32_t>(
            std::partition_point(s.begin(), s.end(), [&](double v) { return v - own < 1.0; }) -
            s.begin());
        expected_lo[i] = static_cast<uint32_t>(
            std::partition_point(s.begin(), s.end(), [&](double v) { return own - v >= 1.0; }) -
            s.begin());
      }
      for (const int threads : {1, 2, 4}) {
        for (int repeat = 0; repeat < 3; ++repeat) {  // a race does not show every time
          std::vector<uint32_t> hi(n, UINT32_MAX), lo(n, UINT32_MAX);
          ranksvm::margin_ranks(s.data(), n, 1.0, hi.data(), lo.data(), Context(threads));
          CHECK(hi == expected_hi);
          CHECK(lo == expected_lo);
        }
      }
    }
  }
}

TEST(plans_against_all_pairs_one_query) {
  unsigned seed = 0;
  for (const int64_t n : {1, 2, 3, 15, 63, 64, 65, 66, 127, 128, 129, 1000}) {
    for (const uint32_t levels : {1U, 2U, 5U, 0U}) {
      for (const bool weighted : {false, true}) {
        check_against_brute_force(make({n}, levels, Spread::normal, weighted, ++seed));
      }
    }
  }
}

TEST(plans_against_all_pairs_odd_scores) {
  unsigned seed = 100;
  for (const Spread spread : {Spread::ties, Spread::equal, Spread::outliers, Spread::tiny}) {
    for (const int64_t n : {5, 64, 65, 128, 129, 400}) {
      check_against_brute_force(make({n}, 4, spread, false, ++seed));
      check_against_brute_force(make({n}, 0, spread, true, ++seed));
    }
  }
}

TEST(plans_against_all_pairs_many_queries) {
  unsigned seed = 200;
  check_against_brute_force(make({1, 70, 1, 64, 300, 2, 1}, 5, Spread::ties, true, ++seed));
  check_against_brute_force(make({1, 1, 1}, 5, Spread::ties, false, ++seed));
  // An empty query in between, and at both ends.
  check_against_brute_force(make({0, 80, 0, 3, 0}, 3, Spread::normal, true, ++seed));
  std::mt19937_64 random(3);
  std::vector<int64_t> sizes(2500);  // enough items for several batches
  for (int64_t& n : sizes) n = 1 + static_cast<int64_t>(random() % 15);
  check_against_brute_force(make(sizes, 3, Spread::ties, true, ++seed));
}

TEST(plans_agree_on_large_queries) {
  unsigned seed = 300;
  struct Shape {
    std::vector<int64_t> sizes;
    uint32_t levels;
  };
  const std::vector<Shape> shapes = {
      {{65536}, 0}, {{65537}, 0}, {{70000}, 3}, {{100000}, 0}, {{70000, 5, 900, 66000}, 50}};
  for (const Shape& shape : shapes) {
    for (const int kind : {0, 1, 2, 3, 4, 5}) {
      Instance in = make(shape.sizes, shape.levels, Spread::normal, kind % 2 == 1, ++seed);
      in.by_gain = kind == 2 || kind == 3;
      if (kind >= 4) in.worse_weight = by_role(in);
      const Statistics expected = compute(in, Counting::tree, true, Context(2));
      const Statistics one = compute(in, Counting::automatic, true, Context(1));
      check_same(in, one, expected);
      for (const int threads : {2, 3}) {
        const Statistics other = compute(in, Counting::automatic, true, Context(threads));
        CHECK_EQ(other.total, one.total);
        CHECK(other.above == one.above);
        CHECK(other.below == one.below);
        CHECK(other.sum_above == one.sum_above);
        CHECK(other.sum_below == one.sum_below);
        CHECK(other.laplacian == one.laplacian);
        CHECK(other.score_laplacian == one.score_laplacian);
      }
      if (shape.levels == 3) {
        check_same(in, compute(in, Counting::direct, true, Context(1)), expected);
        check_same(in, compute(in, Counting::joachims, true, Context(1)), expected);
      }
    }
  }
}

TEST(a_giant_level_between_small_ones) {
  Instance in = make({90000}, 0, Spread::normal, false, 400);
  for (std::size_t i = 0; i < in.utility.size(); ++i) {
    if (i % 4 != 0) in.utility[i] = 45000.5;
  }
  const Statistics expected = compute(in, Counting::tree, true, Context(1));
  for (const int threads : {1, 2}) {
    check_same(in, compute(in, Counting::automatic, true, Context(threads)), expected);
  }
}

TEST(order_counts_pairs_and_their_weights) {
  const Vector utility{1.0, 0.0, 1.0, 2.0, 5.0, 5.0}, weight{0.5, 1.0, 2.0, 1.0, 3.0, 1.0};
  const std::vector<int64_t> rows{0, 1, 2, 3, 4, 5}, offsets{0, 4, 6};
  const Order order(utility.data(), rows.data(), offsets.data(), 2, weight.data(), nullptr,
                    Context(1));
  CHECK_EQ(order.pairs(0), 5);  // 0 < 1 (twice), 0 < 2, 1 < 2 (twice)
  CHECK_EQ(order.pairs(1), 0);
  CHECK_EQ(order.pair_weight(0), 0.5 + 2.0 + 1.0 + 0.5 + 2.0);
  CHECK_EQ(order.pair_weight(1), 0.0);
}

TEST(order_weighs_pairs_by_gain) {
  const Vector utility{1.0, 0.0, 1.0, 4.0, 5.0, 5.0}, weight{0.5, 1.0, 2.0, 1.0, 3.0, 1.0};
  const std::vector<int64_t> rows{0, 1, 2, 3, 4, 5}, offsets{0, 4, 6};
  const Order order(utility.data(), rows.data(), offsets.data(), 2, weight.data(), nullptr,
                    Context(1), true);
  CHECK_EQ(order.pairs(0), 5);
  CHECK_EQ(order.pair_weight(0), 0.5 + 2.0 + 4.0 + 3.0 * (0.5 + 2.0));
  CHECK_EQ(order.pair_weight(1), 0.0);
  CHECK_EQ(order.largest_gain(0), 4.0);
  const Vector negative{1.0, 0.0, 1.0, -4.0, 5.0, 5.0};
  CHECK_THROWS(
      Order(negative.data(), rows.data(), offsets.data(), 2, nullptr, nullptr, Context(1), true),
      std::invalid_argument);
}

TEST(order_weighs_pairs_by_role) {
  const Vector utility{1.0, 2.0, 2.0, 3.0, 5.0}, better{1.0, 2.0, 0.0, 3.0, 1.0};
  const Vector worse{2.0, 1.0, 4.0, 0.0, 1.0};
  const std::vector<int64_t> rows{0, 1, 2, 3, 4}, offsets{0, 4, 5};
  const Order order(utility.data(), rows.data(), offsets.data(), 2, better.data(), nullptr,
                    Context(1), false, worse.data());
  CHECK_EQ(order.pairs(0), 4);  // without the one of the item that is never the better one
  CHECK_EQ(order.pair_weight(0), 2.0 * 2.0 + 3.0 * (2.0 + 1.0 + 4.0));
  CHECK_EQ(order.pairs(1), 0);
  CHECK_EQ(order.pair_weight(1), 0.0);
  CHECK_THROWS(Order(utility.data(), rows.data(), offsets.data(), 2, nullptr, nullptr, Context(1),
                     true, worse.data()),
               std::invalid_argument);
}

TEST(gains_have_a_grid_if_they_are_whole_and_small) {
  const std::vector<int64_t> rows{0, 1, 2}, offsets{0, 3};
  const Vector ones{1.0, 1.0, 1.0}, twos{2.0, 2.0, 1.0};
  const auto has_grid = [&](const Vector& gain, const Vector& weight) {
    return Order(gain.data(), rows.data(), offsets.data(), 1, weight.data(), nullptr, Context(1),
                 true)
        .has_grid();
  };
  CHECK(has_grid({0.0, 3.0, 1023.0}, ones));
  CHECK(!has_grid({0.0, 3.0, 1023.0}, twos));
  CHECK(!has_grid({0.0, 0.5, 1.0}, ones));
  // Sums with gains are exact: in any order, by any counting.
  Instance in = make({700, 90, 3}, 6, Spread::normal, false, 503);
  in.by_gain = true;
  for (std::size_t i = 0; i < in.score.size(); ++i) in.item_weight.push_back(i % 4);
  const auto order = in.order(Context(1));
  CHECK(order->has_grid());
  Vector x(in.score.size());
  order->centred(in.score.data(), true, x.data(), Context(2));
  in.score = x;
  std::vector<Statistics> found;
  for (const Counting counting : kAll) found.push_back(compute(in, counting, true, Context(1)));
  for (const Statistics& one : found) {
    CHECK(one.score_laplacian == found[0].score_laplacian);
    CHECK(one.above == found[0].above);
  }
}

TEST(order_refuses_more_items_than_its_index_holds) {
  const int64_t offsets[] = {0, int64_t{1} << 32};
  CHECK_THROWS(Order(nullptr, nullptr, offsets, 1, nullptr, nullptr, Context(1)),
               std::length_error);
}

TEST(centring_takes_a_constant_off_each_query) {
  Instance in = make({700, 3, 1}, 0, Spread::normal, false, 500);
  for (double& s : in.score) s += 1e9;
  const auto order = in.order(Context(1));
  Vector centred(in.score.size(), std::nan(""));
  order->centred(in.score.data(), false, centred.data(), Context(2));
  for (std::size_t q = 0; q < in.queries(); ++q) {
    const double taken = in.score[in.rows[in.offsets[q]]] - centred[in.rows[in.offsets[q]]];
    bool constant = true, small = true;
    for (int64_t i = in.offsets[q]; i < in.offsets[q + 1]; ++i) {
      constant &= std::abs(in.score[in.rows[i]] - centred[in.rows[i]] - taken) <= 1e-6;
      small &= std::abs(centred[in.rows[i]]) <= 10.0;
    }
    CHECK(constant);
    CHECK(small);
  }
}

TEST(sums_on_a_grid_are_exact_in_any_order) {
  for (const bool weighted : {false, true}) {
    Instance in = make({700, 90, 3}, 0, Spread::normal, false, 501);
    Vector weight(in.score.size());
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<double>(i % 4);
    const Order order(in.utility.data(), in.rows.data(), in.offsets.data(),
                      static_cast<int64_t>(in.queries()), weighted ? weight.data() : nullptr,
                      nullptr, Context(1));
    CHECK(order.has_grid());
    Vector x(in.score.size());
    const auto sizes = order.centred(in.score.data(), true, x.data(), Context(2));
    CHECK(sizes.moved > 0.0);
    CHECK(sizes.moved < 1e-9);
    for (std::size_t q = 0; q < in.queries(); ++q) {
      double forward = 0.0, backward = 0.0;
      long double truth = 0.0L;
      for (int64_t i = in.offsets[q], j = in.offsets[q + 1] - 1; i < in.offsets[q + 1]; ++i, --j) {
        const int64_t a = in.rows[i], b = in.rows[j];
        forward += order.item_weight(static_cast<uint32_t>(a)) * x[a];
        backward += order.item_weight(static_cast<uint32_t>(b)) * x[b];
        truth += static_cast<long double>(order.item_weight(static_cast<uint32_t>(a))) * x[a];
      }
      CHECK_EQ(forward, backward);
      CHECK_EQ(static_cast<long double>(forward), truth);
    }
  }
  Instance in = make({5}, 0, Spread::normal, false, 502);
  const Vector odd{1.0, 0.3, 2.0, 1.0, 1.0};
  const Order order(in.utility.data(), in.rows.data(), in.offsets.data(), 1, odd.data(), nullptr,
                    Context(1));
  CHECK(!order.has_grid());
}

TEST(query_weights_can_be_replaced) {
  Instance in = make({40, 100}, 4, Spread::normal, true, 600);
  const auto order = in.order(Context(1));
  in.query_weight = {0.25, 3.0};
  order->set_query_weight(in.query_weight);
  const Statistics expected = brute_force(in);
  const Sorted sorted(order, in.score.data(), true, Context(1));
  for (const Counting counting : kAll) {
    const auto plan = ranksvm::make_plan(sorted, in.margin, counting, true, Context(1));
    check_same(in, of_plan(in, *plan, Context(1)), expected);
  }
}

TEST(one_sort_serves_plans_of_any_margin) {
  Instance in = make({40, 300}, 4, Spread::ties, false, 601);
  const auto order = in.order(Context(1));
  const Sorted sorted(order, in.score.data(), true, Context(1));
  for (const Counting counting : kAll) {
    for (const double margin : {1.0, 0.5, 1e-3, 100.0}) {
      in.margin = margin;
      const auto plan = ranksvm::make_plan(sorted, margin, counting, true, Context(1));
      check_same(in, of_plan(in, *plan, Context(1)), brute_force(in));
    }
  }
}

TEST(an_interrupted_plan_leaves_the_order_usable) {
  // Far too many pairs to count them all; the order lives on.
  const Instance in = make({60000, 60000}, 0, Spread::normal, false, 700);
  for (const int threads : {1, 2}) {
    const auto order = in.order(Context(threads));
    for (const Counting counting : {Counting::pairs, Counting::direct, Counting::joachims}) {
      const Sorted sorted(order, in.score.data(), true, Context(threads));
      const Context stopped(threads, [] { return true; });
      CHECK_THROWS(ranksvm::make_plan(sorted, 1.0, counting, true, stopped), ranksvm::Interrupted);
    }
    const Sorted sorted(order, in.score.data(), true, Context(threads));
    const auto plan = ranksvm::make_plan(sorted, 1.0, Counting::automatic, true, Context(threads));
    const auto truth = ranksvm::make_plan(sorted, 1.0, Counting::tree, true, Context(threads));
    CHECK_EQ(plan->total(), truth->total());
  }
}

TEST(plans_share_memory_and_nothing_else) {
  // Two plans and their products in turn: recycled arrays do not leak from one into the other.
  const Instance in = make({500, 70}, 0, Spread::normal, true, 800);
  const auto order = in.order(Context(1));
  for (const Counting counting : kAll) {
    const Sorted sorted(order, in.score.data(), true, Context(1));
    const auto first = ranksvm::make_plan(sorted, 1.0, counting, true, Context(1));
    Vector before(in.score.size()), again(in.score.size()), other(in.score.size());
    first->laplacian(in.payload.data(), before.data(), Context(1));
    Vector reversed = in.score;
    for (double& s : reversed) s = -s;
    const Sorted elsewhere(order, reversed.data(), true, Context(1));
    const auto second = ranksvm::make_plan(elsewhere, 0.5, counting, true, Context(1));
    second->laplacian(in.payload.data(), other.data(), Context(1));
    first->laplacian(in.payload.data(), again.data(), Context(1));
    CHECK(again == before);
    CHECK(other != before);
  }
}
