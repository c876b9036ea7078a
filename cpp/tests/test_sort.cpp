// argsort against std::stable_sort.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "check.hpp"
#include "ranksvm/sort.hpp"

namespace {

using ranksvm::Context;
using Keys = std::vector<double>;

// Below 512 items another algorithm sorts, 4096 is the longest run that is not quantised again, and
// from 131072 on there is more than one piece.
const std::vector<uint32_t> kSizes = {0,    1,    2,    24,   25,     100,    511,    512,   513,
                                      4095, 4096, 4097, 9000, 131071, 131072, 131073, 300000};

void check_sorted(const Keys& key, int threads) {
  const auto n = static_cast<uint32_t>(key.size());
  std::vector<uint32_t> expected(n), order(n, UINT32_MAX);
  for (uint32_t i = 0; i < n; ++i) expected[i] = i;
  std::stable_sort(expected.begin(), expected.end(),
                   [&](uint32_t a, uint32_t b) { return key[a] < key[b]; });
  Keys sorted(n, std::nan(""));
  const auto memory = std::make_shared<ranksvm::Memory>();
  ranksvm::argsort(key.data(), n, order.data(), sorted.data(), memory, Context(threads));
  bool same = true;
  for (uint32_t i = 0; i < n; ++i) same &= order[i] == expected[i] && sorted[i] == key[order[i]];
  CHECK(same);
}

template <class Draw>
void check_all_sizes(unsigned seed, Draw draw) {
  for (const uint32_t n : kSizes) {
    std::mt19937_64 random(seed + n);
    Keys key(n);
    for (double& k : key) k = draw(random);
    check_sorted(key, 1);
    if (n > 4000) check_sorted(key, 3);
  }
}

double uniform(std::mt19937_64& random) {
  return std::uniform_real_distribution<double>(-1.0, 1.0)(random);
}

}  // namespace

TEST(argsort_random) { check_all_sizes(1, uniform); }

TEST(argsort_normal_with_offset) {
  check_all_sizes(2,
                  [](auto& random) { return 1e12 + std::normal_distribution<double>()(random); });
}

TEST(argsort_ties) {
  check_all_sizes(3, [](auto& random) { return static_cast<double>(random() % 7) / 4 - 1; });
}

TEST(argsort_all_equal) {
  check_all_sizes(4, [](auto&) { return 0.3; });
}

TEST(argsort_zeros_of_both_signs) {
  check_all_sizes(5, [](auto& random) { return random() % 2 == 0 ? 0.0 : -0.0; });
}

TEST(argsort_outliers) {
  // All but a few keys share one quantised value, again and again.
  check_all_sizes(6, [](auto& random) {
    switch (random() % 100) {
      case 0:
        return 1e300;
      case 1:
        return -1e300;
      case 2:
        return 1e15 * uniform(random);
      case 3:
        return 1.7e308 * uniform(random);
      default:
        return uniform(random);
    }
  });
}

TEST(argsort_one_outlier) {
  for (const double outlier : {1e300, -1e300, 1.7976931348623157e308, -1.7976931348623157e308}) {
    std::mt19937_64 random(7);
    Keys key(20000);
    for (double& k : key) k = uniform(random);
    key[777] = outlier;
    check_sorted(key, 1);
    check_sorted(key, 2);
  }
}

TEST(argsort_full_range) {
  // Differences overflow.
  check_all_sizes(8, [](auto& random) {
    return random() % 2 == 0
               ? std::numeric_limits<double>::max() * uniform(random)
               : (random() % 2 == 0 ? 1.0 : -1.0) * std::numeric_limits<double>::max();
  });
}

TEST(argsort_denormals) {
  check_all_sizes(9, [](auto& random) {
    return static_cast<double>(static_cast<int64_t>(random() % 2001) - 1000) *
           std::numeric_limits<double>::denorm_min();
  });
}

TEST(argsort_two_neighbouring_denormals) {
  check_all_sizes(10, [](auto& random) {
    return static_cast<double>(random() % 2) * std::numeric_limits<double>::denorm_min();
  });
}

TEST(argsort_tiny) {
  check_all_sizes(11, [](auto& random) { return 1e-300 * uniform(random); });
}

TEST(argsort_neighbouring_doubles) {
  check_all_sizes(12, [](auto& random) {
    double x = 1.0;
    for (uint64_t k = random() % 5; k > 0; --k) x = std::nextafter(x, 2.0);
    return x;
  });
}

TEST(argsort_every_magnitude) {
  check_all_sizes(13, [](auto& random) {
    const double sign = random() % 2 == 0 ? 1.0 : -1.0;
    return sign * std::ldexp(1.0 + uniform(random) / 3, static_cast<int>(random() % 2098) - 1075);
  });
}

TEST(argsort_sorted_and_reversed) {
  for (const uint32_t n : {513U, 5000U, 140000U}) {
    Keys up(n), down(n);
    for (uint32_t i = 0; i < n; ++i) up[i] = down[n - 1 - i] = 0.1 * i;
    check_sorted(up, 2);
    check_sorted(down, 2);
  }
}

TEST(argsort_is_interrupted_and_usable_afterwards) {
  std::mt19937_64 random(14);
  Keys key(400000);
  for (double& k : key) k = uniform(random);
  const auto memory = std::make_shared<ranksvm::Memory>();
  std::vector<uint32_t> order(key.size());
  Keys sorted(key.size());
  const Context stopped(2, [] { return true; });
  auto sort_for_long = [&] {
    for (int i = 0; i < 100000; ++i) {
      ranksvm::argsort(key.data(), 400000, order.data(), sorted.data(), memory, stopped);
    }
  };
  CHECK_THROWS(sort_for_long(), ranksvm::Interrupted);
  ranksvm::argsort(key.data(), 400000, order.data(), sorted.data(), memory, Context(2));
  CHECK(std::is_sorted(sorted.begin(), sorted.end()));
}
