#include "ranksvm/lambda_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ranksvm/query_loop.hpp"

namespace ranksvm {

void count_lambda_pairs(const RankedGains& ranked, int64_t* counts, const Context& context) {
  for_each_query(ranked.offsets, ranked.n_queries, context, [&](int64_t q, const Context&) {
    const int64_t* order = ranked.order + ranked.offsets[q];
    const int64_t n = ranked.offsets[q + 1] - ranked.offsets[q];
    std::vector<double> levels(n);
    for (int64_t a = 0; a < n; ++a) levels[a] = ranked.gain[order[a]];
    std::sort(levels.begin(), levels.end());
    // Items of the same gain at later ranks: all of them, less those that came before.
    std::vector<int64_t> seen(n, 0);  // by the place of the first one in `levels`
    int64_t count = 0;
    for (int64_t a = 0; a < std::min(n, ranked.truncation); ++a) {
      const double own = ranked.gain[order[a]];
      const auto [first, last] = std::equal_range(levels.begin(), levels.end(), own);
      const int64_t before = seen[first - levels.begin()]++;
      count += n - 1 - a - ((last - first) - 1 - before);
    }
    counts[q] = count;
  });
}

void list_lambda_pairs(const RankedGains& ranked, const int64_t* starts, int64_t* better,
                       int64_t* worse, double* weight, const Context& context) {
  for_each_query(ranked.offsets, ranked.n_queries, context, [&](int64_t q, const Context& inner) {
    const int64_t* order = ranked.order + ranked.offsets[q];
    const int64_t n = ranked.offsets[q + 1] - ranked.offsets[q];
    int64_t pair = starts[q];
    for (int64_t a = 0; a < std::min(n, ranked.truncation); ++a) {
      if (a % 64 == 0) inner.check_interrupt();
      const double gain = ranked.gain[order[a]];
      for (int64_t b = a + 1; b < n; ++b) {
        const double difference = gain - ranked.gain[order[b]];
        if (difference == 0.0) continue;
        const bool upper_is_better = difference > 0.0;
        better[pair] = order[upper_is_better ? a : b];
        worse[pair] = order[upper_is_better ? b : a];
        const double items =
            ranked.weight == nullptr ? 1.0 : ranked.weight[order[a]] * ranked.weight[order[b]];
        const double change =
            std::abs(difference) * std::abs(ranked.discount[a] - ranked.discount[b]);
        weight[pair++] = items * (change * ranked.query_factor[q]);
      }
    }
  });
}

}  // namespace ranksvm
