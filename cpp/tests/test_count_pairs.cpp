// Pair counts of queries too large to hold in memory.
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "ranksvm/order.hpp"

TEST(pair_counts_beyond_2_to_the_53_are_exact) {
  const std::vector<uint32_t> two{0, 134217729,
                                  268435459};  // odd sizes: no double holds the product
  CHECK_EQ(ranksvm::count_pairs(two.data(), 2), int64_t{134217729} * 134217730);
  CHECK(ranksvm::count_pairs(two.data(), 2) > int64_t{1} << 53);
  const uint32_t most = UINT32_MAX - (1U << 18);
  const std::vector<uint32_t> three{0, 1, 2147483648U, most};
  const int64_t rest = static_cast<int64_t>(most) - 2147483648;
  CHECK_EQ(ranksvm::count_pairs(three.data(), 3), int64_t{2147483647} + (int64_t{1} << 31) * rest);
  CHECK(ranksvm::count_pairs(three.data(), 3) > int64_t{1} << 61);
}
