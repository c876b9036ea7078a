// Sums are added pairwise, as NumPy adds: blocks of up to 128 numbers in eight sums side by side,
// and halves of longer ones apart. Zeros in place of ranks that do not count keep the order of the
// additions, and so the bits, independent of them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "ranksvm/query_loop.hpp"
#include "ranksvm/ranking.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kSummed = 128;

double block_sum(const double* x, int64_t n) {
  if (n < 8) {
    double sum = -0.0;
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
  double sums[8];
  std::copy(x, x + 8, sums);
  int64_t i = 8;
  for (; i + 8 <= n; i += 8) {
    for (int64_t j = 0; j < 8; ++j) sums[j] += x[i + j];
  }
  double sum =
      ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// Calls leaf(begin, n) for the parts of at most `most` numbers, and adds what it returns.
template <class Leaf>
double halves(int64_t begin, int64_t n, int64_t most, Leaf& leaf) {
  if (n <= most) return leaf(begin, n);
  const int64_t half = n / 2 - n / 2 % 8;
  const double left = halves(begin, half, most, leaf);
  return left + halves(begin + half, n - half, most, leaf);
}

double pairwise_sum(const double* x, int64_t n) {
  auto leaf = [x](int64_t begin, int64_t size) { return block_sum(x + begin, size); };
  return halves(0, n, kSummed, leaf);
}

// The sum of n numbers; the first one is added last.
double sum_of(const double* x, int64_t n, const Context& context) {
  if (n == 0) return 0.0;
  if (n == 1) return x[0];
  if (n <= kLargeQuery) return x[0] + pairwise_sum(x + 1, n - 1);
  std::vector<std::pair<int64_t, int64_t>> parts;
  auto note = [&](int64_t begin, int64_t size) {
    parts.emplace_back(begin, size);
    return 0.0;
  };
  halves(1, n - 1, kQueryPart, note);
  std::vector<double> sums(parts.size());
  context.parallel_for(parts.size(), [&](std::size_t p, const Context&) {
    sums[p] = pairwise_sum(x + parts[p].first, parts[p].second);
  });
  std::size_t next = 0;
  auto found = [&](int64_t, int64_t) { return sums[next++]; };
  return x[0] + halves(1, n - 1, kQueryPart, found);
}

// The largest score of the relevant items among the given rows, without branches; below all numbers
// if there is none.
double best_relevant(const double* label, double above, const double* score, const int64_t* row,
                     int64_t n) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  double best = kNone;
  for (int64_t i = 0; i < n; ++i) {
    // By a mask: a branch would be mispredicted half of the time.
    const auto mask = -static_cast<uint64_t>(label[row[i]] > above);
    const auto bits =
        (std::bit_cast<uint64_t>(score[row[i]]) & mask) | (std::bit_cast<uint64_t>(kNone) & ~mask);
    best = std::max(best, std::bit_cast<double>(bits));
  }
  return best;
}

// Where the reader stops in a tie of n items, for the first `limit` of its ranks. Items come in one
// by one: with m of them in, alive[j] is the mean over all orders of the probability to pass the
// first j, and out[j] that to pass j and to stop at the next. The newcomer takes each of the m
// places alike: beyond the rank in question, before it, or right at it.
void stops_of_tie(const double* stop, int64_t n, int64_t limit, double* out,
                  std::vector<double>& alive, const Context& context) {
  alive.assign(limit + 1, 0.0);
  alive[0] = 1.0;
  std::fill(out, out + limit, 0.0);
  for (int64_t m = 1; m <= n; ++m) {
    if (m % 256 == 0) context.check_interrupt();
    const double share = 1.0 / static_cast<double>(m), pass = 1.0 - stop[m - 1];
    for (int64_t j = std::min(m, limit); j >= 1; --j) {
      const double before = static_cast<double>(j - 1) * pass * (j > 1 ? out[j - 2] : 0.0);
      const double at = stop[m - 1] * alive[j - 1];
      const double beyond = static_cast<double>(m - j);
      out[j - 1] = (beyond * out[j - 1] + before + at) * share;
      alive[j] = (beyond * alive[j] + static_cast<double>(j) * pass * alive[j - 1]) * share;
    }
  }
}

// The same when `sure` items stop the reader for sure and the others never.
void stops_of_sure_tie(int64_t sure, int64_t n, int64_t limit, double* out) {
  double alive = 1.0;
  for (int64_t j = 0; j < limit; ++j) {
    const double hazard = std::min(1.0, static_cast<double>(sure) / static_cast<double>(n - j));
    out[j] = alive * hazard;
    alive *= 1.0 - hazard;
  }
}

}  // namespace

void weighted_sums(const double* value, const int64_t* order, const int64_t* offsets,
                   int64_t n_queries, const int64_t* limits, const double* weight, double* out,
                   const Context& context) {
  const auto memory = std::make_shared<Memory>();
  for_each_query(offsets, n_queries, context, [&](int64_t q, const Context& inner) {
    const int64_t n = offsets[q + 1] - offsets[q], counted = std::min(n, limits[q]);
    const int64_t* const row = order + offsets[q];
    QueryArray<double> terms(n, memory);
    double* const term = terms.data();
    for_each_part(n, inner, [&](std::size_t, int64_t begin, int64_t end) {
      const int64_t last = std::clamp(counted, begin, end);
      for (int64_t r = begin; r < last; ++r) term[r] = value[row[r]] * weight[r];
      std::fill(term + last, term + end, 0.0);
    });
    out[q] = sum_of(term, n, inner);
  });
}

void precision_sums(const double* label, double above, const int64_t* order, const int64_t* offsets,
                    int64_t n_queries, const int64_t* limits, double* out, int64_t* relevant,
                    const Context& context) {
  const auto memory = std::make_shared<Memory>();
  for_each_query(offsets, n_queries, context, [&](int64_t q, const Context& inner) {
    const int64_t n = offsets[q + 1] - offsets[q], counted = std::min(n, limits[q]);
    const int64_t* const row = order + offsets[q];
    QueryArray<double> terms(n, memory);
    double* const term = terms.data();
    std::vector<int64_t> before;  // relevant items before each part
    if (n > kQueryPart) {
      before.resize(static_cast<std::size_t>((n + kQueryPart - 1) / kQueryPart) + 1);
      for_each_part(n, inner, [&](std::size_t part, int64_t begin, int64_t end) {
        before[part + 1] =
            std::count_if(row + begin, row + end, [&](int64_t i) { return label[i] > above; });
      });
      for (std::size_t part = 1; part < before.size(); ++part) before[part] += before[part - 1];
      relevant[q] = before.back();
    }
    for_each_part(n, inner, [&](std::size_t part, int64_t begin, int64_t end) {
      int64_t hits = before.empty() ? 0 : before[part];
      for (int64_t r = begin; r < end; ++r)
        term[r] = label[row[r]];  // a loop that waits for memory
      for (int64_t r = begin; r < end; ++r) {
        const bool is_hit = term[r] > above;
        hits += is_hit;
        const double share = static_cast<double>(hits) / static_cast<double>(r + 1);
        term[r] = is_hit && r < counted ? share : 0.0;
      }
      if (before.empty()) relevant[q] = hits;
    });
    if (n == 0) relevant[q] = 0;
    out[q] = sum_of(term, n, inner);
  });
}

void first_relevant(const double* label, double above, const double* score, const int64_t* rows,
                    const int64_t* offsets, int64_t n_queries, const int64_t* limits, int64_t* rank,
                    const Context& context) {
  const auto memory = std::make_shared<Memory>();
  for_each_query(offsets, n_queries, context, [&](int64_t q, const Context& inner) {
    const int64_t n = offsets[q + 1] - offsets[q];
    const int64_t* const row = rows + offsets[q];
    const auto parts = static_cast<std::size_t>((n + kQueryPart - 1) / kQueryPart);
    QueryArray<double> bests(static_cast<int64_t>(parts), memory);
    QueryArray<int64_t> counts(static_cast<int64_t>(parts), memory);
    for_each_part(n, inner, [&](std::size_t part, int64_t begin, int64_t end) {
      bests.data()[part] = best_relevant(label, above, score, row + begin, end - begin);
    });
    const double* const best = std::max_element(bests.data(), bests.data() + parts);
    if (parts == 0 || std::isinf(*best)) {
      rank[q] = -1;
      return;
    }
    int64_t first = (best - bests.data()) * kQueryPart;  // of those with this score
    while (!(label[row[first]] > above && score[row[first]] == *best)) ++first;
    for_each_part(n, inner, [&](std::size_t part, int64_t begin, int64_t end) {
      const int64_t turn = std::clamp(first, begin, end);  // ties are in the order of `rows`
      int64_t ahead = 0;
      for (int64_t i = begin; i < turn; ++i) ahead += score[row[i]] >= *best;
      for (int64_t i = turn; i < end; ++i) ahead += score[row[i]] > *best;
      counts.data()[part] = ahead;
    });
    const int64_t ahead = std::accumulate(counts.data(), counts.data() + parts, int64_t{0});
    rank[q] = ahead < limits[q] ? ahead + 1 : 0;
  });
}

void running_sums(const double* x, const int64_t* offsets, int64_t n_queries, double* out,
                  const Context& context) {
  for_each_query(offsets, n_queries, context, [&](int64_t q, const Context&) {
    double sum = 0.0;
    for (int64_t p = offsets[q]; p < offsets[q + 1]; ++p) out[p] = sum += x[p];
  });
}

void cascade(const double* stop, const int64_t* offsets, int64_t n_queries, const int64_t* ties,
             int64_t n_ties, int64_t limit, double* out, const Context& context) {
  for_each_query(offsets, n_queries, context, [&](int64_t q, const Context& inner) {
    std::vector<double> scratch;
    double alive = 1.0;  // probability to come this far
    const int64_t* tie = std::lower_bound(ties, ties + n_ties, offsets[q]);
    const int64_t end = offsets[q + 1];
    const int64_t last = std::min(end, offsets[q] + std::min(limit, end - offsets[q]));
    for (; *tie < last; ++tie) {
      const int64_t begin = *tie, n = tie[1] - begin, counted = std::min(n, last - begin);
      if (n == 1) {
        out[begin] = alive * stop[begin];
        alive *= 1.0 - stop[begin];
        continue;
      }
      int64_t sure = 0;
      bool all_sure = true;
      double pass = 1.0;
      for (int64_t p = begin; p < tie[1]; ++p) {
        sure += stop[p] == 1.0;
        all_sure &= stop[p] == 0.0 || stop[p] == 1.0;
        pass *= 1.0 - stop[p];
      }
      if (all_sure) {
        stops_of_sure_tie(sure, n, counted, out + begin);
      } else {
        stops_of_tie(stop + begin, n, counted, out + begin, scratch, inner);
      }
      for (int64_t p = begin; p < begin + counted; ++p) out[p] *= alive;
      alive *= pass;
    }
    std::fill(out + last, out + end, 0.0);
  });
}

}  // namespace ranksvm
