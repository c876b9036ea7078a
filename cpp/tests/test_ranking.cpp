// Rankings inside queries against the plainest code that could do the same.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"
#include "ranksvm/ranking.hpp"

namespace {

using ranksvm::Context;
using Values = std::vector<double>;
using Index = std::vector<int64_t>;

// Up to 16 items are inserted, up to 511 merged, more radix sorted, and more than 65536 are shared.
const Index kSizes = {1, 0, 2, 16, 17, 31, 33, 100, 511, 512, 513, 2000, 3, 65536, 65537, 90000, 5};

Index offsets_of(const Index& sizes) {
  Index offsets = {0};
  for (const int64_t n : sizes) offsets.push_back(offsets.back() + n);
  return offsets;
}

double normal(std::mt19937_64& random) { return std::normal_distribution<double>()(random); }

template <class Draw>
Values draw_values(int64_t n, unsigned seed, Draw draw) {
  std::mt19937_64 random(seed);
  Values x(n);
  for (double& value : x) value = draw(random);
  return x;
}

template <class Draw>
void check_ranks(const Index& sizes, unsigned seed, Draw draw) {
  const Index offsets = offsets_of(sizes);
  const auto queries = static_cast<int64_t>(sizes.size());
  const int64_t n = offsets.back();
  const Values score = draw_values(n, seed, draw);
  Index rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  std::shuffle(rows.begin(), rows.end(), std::mt19937_64(seed));
  Index expected = rows;
  for (int64_t q = 0; q < queries; ++q) {
    std::stable_sort(expected.begin() + offsets[q], expected.begin() + offsets[q + 1],
                     [&](int64_t a, int64_t b) { return score[a] > score[b]; });
  }
  for (const int threads : {1, 3}) {
    Index order(n, -1);
    ranksvm::rank_items(score.data(), rows.data(), offsets.data(), queries, order.data(),
                        Context(threads));
    CHECK(order == expected);
  }
}

// Where a reader stops in the given order.
Values stops_in_order(const Values& stop, const std::vector<int>& order, int64_t limit) {
  Values there(stop.size(), 0.0);
  double alive = 1.0;
  for (std::size_t r = 0; r < order.size() && static_cast<int64_t>(r) < limit; ++r) {
    there[r] = alive * stop[order[r]];
    alive *= 1.0 - stop[order[r]];
  }
  return there;
}

// The mean over all orders of one query that keep the ties together.
Values mean_stops(const Values& stop, const Index& ties, int64_t limit) {
  std::vector<int> order(stop.size());
  std::iota(order.begin(), order.end(), 0);
  Values sum(stop.size(), 0.0);
  int64_t count = 0;
  auto group = [&](int item) {
    return std::upper_bound(ties.begin(), ties.end(), item) - ties.begin();
  };
  do {
    bool fits = true;
    for (std::size_t r = 0; r + 1 < order.size(); ++r)
      fits &= group(order[r]) <= group(order[r + 1]);
    if (!fits) continue;
    const Values there = stops_in_order(stop, order, limit);
    for (std::size_t r = 0; r < sum.size(); ++r) sum[r] += there[r];
    ++count;
  } while (std::next_permutation(order.begin(), order.end()));
  for (double& value : sum) value /= static_cast<double>(count);
  return sum;
}

}  // namespace

TEST(rank_items_distinct) { check_ranks(kSizes, 1, normal); }

TEST(rank_items_ties) {
  check_ranks(kSizes, 2, [](auto& random) { return static_cast<double>(random() % 5); });
}

TEST(rank_items_all_equal) {
  check_ranks(kSizes, 3, [](auto&) { return -7.0; });
}

TEST(rank_items_zeros_of_both_signs) {
  check_ranks({1, 40, 600}, 4, [](auto& random) { return random() % 2 == 0 ? 0.0 : -0.0; });
}

TEST(rank_items_huge_and_tiny) {
  check_ranks({7, 300, 5000}, 5, [](auto& random) {
    return normal(random) * std::ldexp(1.0, static_cast<int>(random() % 2000) - 1000);
  });
}

TEST(rank_items_many_small_queries) {
  Index sizes(40000);
  for (std::size_t q = 0; q < sizes.size(); ++q) sizes[q] = static_cast<int64_t>(q % 5);
  check_ranks(sizes, 6, normal);
}

TEST(running_sums_start_anew) {
  const Index offsets = offsets_of({2, 0, 3, 1});
  const Values x = {1.0, 2.0, 1e300, -1e300, 5.0, 0.25};
  Values out(x.size());
  ranksvm::running_sums(x.data(), offsets.data(), 4, out.data(), Context(2));
  CHECK(out == Values({1.0, 3.0, 1e300, 0.0, 5.0, 0.25}));
}

// Pairs of one query by looking at each of them: comparable, wrong, tied, equal.
Index all_pairs(const Values& level, const Values& score, const Index& rows, int64_t begin,
                int64_t end) {
  Index found(4, 0);
  for (int64_t a = begin; a < end; ++a) {
    for (int64_t b = a + 1; b < end; ++b) {
      const double y = level[rows[a]] - level[rows[b]], s = score[rows[a]] - score[rows[b]];
      found[0] += y != 0.0;
      found[1] += y * s < 0.0;
      found[2] += y != 0.0 && s == 0.0;
      found[3] += s == 0.0;
    }
  }
  return found;
}

TEST(ranked_pairs_equal_all_pairs) {
  const Index sizes = {0, 1, 2, 15, 16, 17, 64, 500, 511, 512, 513, 1300};
  const Index offsets = offsets_of(sizes);
  const auto queries = static_cast<int64_t>(sizes.size());
  const int64_t n = offsets.back();
  for (const unsigned levels : {1U, 2U, 7U, 9U, 32U, 33U, 100000U}) {
    for (const unsigned scores : {1U, 3U, 50U, 1000000U}) {
      for (const double shift : {0.0, -1.0, 0.5}) {
        const auto draw = [](unsigned most, double by) {
          return [=](auto& random) { return static_cast<double>(random() % most) + by; };
        };
        const Values level = draw_values(n, levels, draw(levels, shift));
        const Values score = draw_values(n, scores + 7, draw(scores, 0.25));
        Index rows(n), order(n);
        std::iota(rows.begin(), rows.end(), 0);
        std::shuffle(rows.begin(), rows.end(), std::mt19937_64(levels));
        ranksvm::rank_items(score.data(), rows.data(), offsets.data(), queries, order.data(),
                            Context(1));
        for (const int threads : {1, 3}) {
          Index got[4];
          for (Index& one : got) one.assign(sizes.size(), -1);
          ranksvm::count_ranked_pairs(
              level.data(), score.data(), order.data(), offsets.data(), queries,
              {got[0].data(), got[1].data(), got[2].data(), got[3].data()}, Context(threads));
          for (int64_t q = 0; q < queries; ++q) {
            const Index expected = all_pairs(level, score, rows, offsets[q], offsets[q + 1]);
            for (int kind = 0; kind < 4; ++kind) CHECK_EQ(got[kind][q], expected[kind]);
          }
        }
      }
    }
  }
}

TEST(ranked_pairs_past_32_bits) {
  const int64_t n = 200000;
  Values up(n), down(n), same(n, 1.0);
  std::iota(up.begin(), up.end(), 0.0);
  std::transform(up.begin(), up.end(), down.begin(), [](double x) { return -x; });
  Index order(n);
  std::iota(order.begin(), order.end(), 0);
  const Index offsets = {0, n};
  int64_t comparable = 0, wrong = 0, tied = 0, equal = 0;
  const ranksvm::RankedPairs out{&comparable, &wrong, &tied, &equal};
  ranksvm::count_ranked_pairs(up.data(), down.data(), order.data(), offsets.data(), 1, out,
                              Context(2));
  CHECK_EQ(comparable, n * (n - 1) / 2);
  CHECK_EQ(wrong, n * (n - 1) / 2);
  CHECK_EQ(equal, 0);
  ranksvm::count_ranked_pairs(up.data(), same.data(), order.data(), offsets.data(), 1, out,
                              Context(2));
  CHECK_EQ(wrong, 0);
  CHECK_EQ(tied, n * (n - 1) / 2);
  CHECK_EQ(equal, n * (n - 1) / 2);
}

TEST(large_rankings_with_ties_by_any_number_of_threads) {
  std::mt19937_64 random(17);
  constexpr int64_t kItems = 150'001, kScores = 2'000;
  for (const unsigned levels : {5U, 20U, 300U}) {
    Values level(kItems), score(kItems);
    std::vector<Index> table(levels, Index(kScores, 0));  // items by level and score
    for (int64_t i = 0; i < kItems; ++i) {
      // A tie of 40,000 items covers whole parts.
      const auto l = random() % levels, s = i < 40'000 ? 700 : random() % kScores;
      level[i] = static_cast<double>(l);
      score[i] = static_cast<double>(s);
      ++table[l][s];
    }
    const auto pairs = [](int64_t n) { return n * (n - 1) / 2; };
    Index by_score(kScores, 0), expected = {pairs(kItems), 0, 0, 0};
    for (const Index& row : table) {  // levels from the lowest
      int64_t above = 0;              // items of lower levels with a higher score
      for (int64_t s = kScores - 1; s >= 0; --s) {
        expected[1] += row[s] * above;
        expected[2] += row[s] * by_score[s];
        above += by_score[s];
      }
      expected[0] -= pairs(std::accumulate(row.begin(), row.end(), int64_t{0}));
      for (int64_t s = 0; s < kScores; ++s) by_score[s] += row[s];
    }
    for (const int64_t n : by_score) expected[3] += pairs(n);
    Index rows(kItems), order(kItems);
    std::iota(rows.begin(), rows.end(), 0);
    const Index offsets = {0, kItems};
    ranksvm::rank_items(score.data(), rows.data(), offsets.data(), 1, order.data(), Context(1));
    for (const int threads : {1, 2, 3, 16}) {
      Index got(4, -1);
      ranksvm::count_ranked_pairs(level.data(), score.data(), order.data(), offsets.data(), 1,
                                  {&got[0], &got[1], &got[2], &got[3]}, Context(threads));
      CHECK(got == expected);
    }
  }
}

TEST(first_ranks_are_those_of_the_whole_ranking) {
  const Index offsets = offsets_of(kSizes);
  const auto queries = static_cast<int64_t>(kSizes.size());
  const int64_t n = offsets.back();
  Index rows(n), order(n);
  std::iota(rows.begin(), rows.end(), 0);
  std::shuffle(rows.begin(), rows.end(), std::mt19937_64(5));
  for (const unsigned levels : {1U, 4U, 1000000000U}) {
    const Values score = draw_values(n, levels, [levels](auto& random) {
      const double skewed = std::ldexp(1.0, static_cast<int>(random() % 60));
      return static_cast<double>(random() % levels) * (levels > 4U ? skewed : 1.0);
    });
    ranksvm::rank_items(score.data(), rows.data(), offsets.data(), queries, order.data(),
                        Context(1));
    for (const int64_t k : {1, 2, 10, 100, 128, 129, 10000}) {
      Index tops, expected;
      for (int64_t q = 0; q < queries; ++q) {
        tops.push_back(std::min(k, kSizes[q]));
        expected.insert(expected.end(), order.begin() + offsets[q],
                        order.begin() + offsets[q] + tops.back());
      }
      const Index top_offsets = offsets_of(tops);
      for (const int threads : {1, 3}) {
        Index got(expected.size(), -1);
        ranksvm::rank_first(score.data(), rows.data(), offsets.data(), queries, top_offsets.data(),
                            got.data(), Context(threads));
        CHECK(got == expected);
      }
    }
  }
}

TEST(sums_over_ranks_equal_plain_sums) {
  const Index offsets = offsets_of(kSizes);
  const auto queries = static_cast<int64_t>(kSizes.size());
  const int64_t n = offsets.back();
  Index rows(n), order(n);
  std::iota(rows.begin(), rows.end(), 0);
  std::shuffle(rows.begin(), rows.end(), std::mt19937_64(6));
  const Values label = draw_values(n, 8, [](auto& random) { return double(random() % 3); });
  const Values score = draw_values(n, 9, [](auto& random) { return double(random() % 20000); });
  const Values weight = draw_values(n, 10, normal);
  ranksvm::rank_items(score.data(), rows.data(), offsets.data(), queries, order.data(), Context(1));
  for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{10}, int64_t{700}, n}) {
    Index limits;
    for (const int64_t size : kSizes) limits.push_back(std::min(k, size));
    Values first_sums;
    for (const int threads : {1, 2, 5}) {
      for (const double above : {0.0, 1.0, 2.0}) {
        Values sums(queries), shares(queries);
        Index relevant(queries), rank(queries);
        const Context context(threads);
        ranksvm::weighted_sums(label.data(), order.data(), offsets.data(), queries, limits.data(),
                               weight.data(), sums.data(), context);
        ranksvm::precision_sums(label.data(), above, order.data(), offsets.data(), queries,
                                limits.data(), shares.data(), relevant.data(), context);
        ranksvm::first_relevant(label.data(), above, score.data(), rows.data(), offsets.data(),
                                queries, limits.data(), rank.data(), context);
        if (first_sums.empty()) first_sums = sums;
        CHECK(sums == first_sums);
        for (int64_t q = 0; q < queries; ++q) {
          long double sum = 0.0L, share = 0.0L;
          int64_t hits = 0, first = -1;
          for (int64_t r = 0; r < kSizes[q]; ++r) {
            const int64_t row = order[offsets[q] + r];
            const bool is_hit = label[row] > above, counts = r < limits[q];
            hits += is_hit;
            if (is_hit && first < 0) first = counts ? r + 1 : 0;
            if (counts) sum += static_cast<long double>(label[row]) * weight[r];
            if (counts && is_hit) share += static_cast<long double>(hits) / (r + 1);
          }
          CHECK_NEAR(sums[q], static_cast<double>(sum), 1e-11);
          CHECK_NEAR(shares[q], static_cast<double>(share), 1e-10);
          CHECK_EQ(relevant[q], hits);
          CHECK_EQ(rank[q], first);
        }
      }
    }
  }
}

TEST(cascade_equals_the_mean_over_all_orders) {
  const Values kinds[] = {{0.3, 0.0, 0.9, 0.5, 0.1, 0.7},
                          {0.0, 1.0, 0.0, 1.0, 0.0, 0.0},
                          {0.0, 0.0, 0.0, 0.0, 0.0, 0.0},
                          {1.0, 0.25, 1.0, 0.25, 0.0, 1.0}};
  const Index cuts[] = {{0, 6},       {0, 1, 2, 3, 4, 5, 6}, {0, 3, 6},
                        {0, 1, 5, 6}, {0, 2, 3, 6},          {0, 5, 6}};
  const Index offsets = {0, 6};
  for (const Values& stop : kinds) {
    for (const Index& ties : cuts) {
      for (int64_t limit = 1; limit <= 7; ++limit) {
        Values out(6, std::nan(""));
        ranksvm::cascade(stop.data(), offsets.data(), 1, ties.data(),
                         static_cast<int64_t>(ties.size()) - 1, limit, out.data(), Context(1));
        const Values expected = mean_stops(stop, ties, limit);
        for (int r = 0; r < 6; ++r) CHECK_NEAR(out[r], expected[r], 1e-14);
      }
    }
  }
}

TEST(cascade_of_several_queries) {
  const Values stop = {0.5, 0.5, 1.0, 0.25, 0.75};
  const Index offsets = {0, 2, 3, 5}, ties = {0, 1, 2, 3, 5};
  Values out(5);
  ranksvm::cascade(stop.data(), offsets.data(), 3, ties.data(), 4, 5, out.data(), Context(2));
  const Values expected = {0.5, 0.25, 1.0, 0.5, 0.5 * (0.75 * 0.75 + 0.25 * 0.25)};
  for (int p = 0; p < 5; ++p) CHECK_NEAR(out[p], expected[p], 1e-15);
}

TEST(long_ties_are_interrupted) {
  const int64_t n = 60000;
  const Values stop(n, 0.5);
  const Index offsets = {0, n}, ties = {0, n};
  Values out(n);
  const Context stopped(1, [] { return true; });
  CHECK_THROWS(
      ranksvm::cascade(stop.data(), offsets.data(), 1, ties.data(), 1, n, out.data(), stopped),
      ranksvm::Interrupted);
}

TEST(large_queries_are_ranked_and_counted_by_any_number_of_threads) {
  std::mt19937_64 random(11);
  constexpr int64_t kItems = 150'001;
  for (const uint64_t levels : {uint64_t{3}, uint64_t{1000}, uint64_t{1} << 40}) {
    std::vector<double> x(kItems);
    for (double& value : x) value = static_cast<double>(random() % levels);
    std::vector<int64_t> rows(kItems);
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<double> down(kItems);  // scores that keep the order of the rows
    for (int64_t i = 0; i < kItems; ++i) down[i] = static_cast<double>(-i);
    const std::vector<int64_t> offsets{0, 10, 10, kItems};
    // By a stable sort: every item is counted against those before it, with a tree of sums.
    std::vector<double> distinct(x);
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    int64_t expected = 0;
    std::vector<int64_t> tree(distinct.size() + 1, 0);
    for (int64_t i = 10; i < kItems; ++i) {
      const auto rank = std::lower_bound(distinct.begin(), distinct.end(), x[i]) - distinct.begin();
      for (auto k = rank; k > 0; k -= k & -k) expected += tree[k];  // smaller ones
      for (auto k = rank + 1; k < static_cast<int64_t>(tree.size()); k += k & -k) ++tree[k];
    }
    std::vector<int64_t> order(rows.begin() + 10, rows.end());
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x[a] > x[b]; });
    for (const int threads : {1, 2, 3, 5, 16}) {
      std::vector<int64_t> count(3, -1), other(3, -1), got(kItems);
      ranksvm::count_ranked_pairs(x.data(), down.data(), rows.data(), offsets.data(), 3,
                                  {other.data(), count.data(), other.data(), other.data()},
                                  Context(threads));
      CHECK_EQ(count[1], 0);
      CHECK_EQ(count[2], expected);
      ranksvm::rank_items(x.data(), rows.data(), offsets.data(), 3, got.data(), Context(threads));
      CHECK(std::equal(order.begin(), order.end(), got.begin() + 10));
    }
  }
}
