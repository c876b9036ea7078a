// Levels that are few small integers, as grades are, are counted while going down the ranking.
// Other ones are sorted by merges, which count what they exchange. Items with equal scores are
// ranked by their level for this, so that they are never exchanged.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "ranksvm/buffer.hpp"
#include "ranksvm/query_loop.hpp"
#include "ranksvm/ranking.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kBlock = 16;             // sorted by insertion
constexpr int64_t kInterruptSteps = 4096;  // steps between two looks for an interrupt
constexpr int kLevels = 32;                // levels 0, 1, ... that are counted
constexpr int kWidth = 8;                  // levels that are counted at once

int64_t pairs_of(int64_t n) { return n * (n - 1) / 2; }

// Merges two descending neighbours x[begin : middle] and x[middle : end] into `out` at the same
// place; returns the inversions between them.
int64_t merge_and_count(const double* x, int64_t begin, int64_t middle, int64_t end, double* out) {
  int64_t count = 0;
  const double *left = x + begin, *right = x + middle;
  const double *const left_end = right, *const right_end = x + end;
  out += begin;
  while (left != left_end && right != right_end) {
    const bool from_right = *right > *left;
    count += from_right ? left_end - left : 0;
    *out++ = from_right ? *right : *left;
    right += from_right;
    left += !from_right;
  }
  out = std::copy(left, left_end, out);
  std::copy(right, right_end, out);
  return count;
}

// Of the first `k` items of the merge of two descending neighbours: how many are from the left one.
// Of equal items the left one comes first.
int64_t from_left(const double* left, int64_t n_left, const double* right, int64_t n_right,
                  int64_t k) {
  int64_t low = std::max<int64_t>(0, k - n_right), high = std::min(k, n_left);
  while (low < high) {  // whether left[i] is among them: before right[k - i - 1]
    const int64_t i = low + (high - low) / 2;
    if (left[i] >= right[k - i - 1]) {
      low = i + 1;
    } else {
      high = i;
    }
  }
  return low;
}

// Items [first, last) of the same merge, and the inversions with the items of the right neighbour
// among them.
int64_t merge_part(const double* x, int64_t begin, int64_t middle, int64_t end, int64_t first,
                   int64_t last, double* out) {
  const double *const left = x + begin, *const right = x + middle;
  const int64_t n_left = middle - begin, n_right = end - middle;
  int64_t i = from_left(left, n_left, right, n_right, first - begin);
  const int64_t i_end = from_left(left, n_left, right, n_right, last - begin);
  int64_t j = first - begin - i;
  const int64_t j_end = last - begin - i_end;
  int64_t count = 0;
  for (double* to = out + first; to != out + last;) {
    const bool from_right = i == i_end || (j != j_end && right[j] > left[i]);
    count += from_right ? n_left - i : 0;
    *to++ = from_right ? right[j] : left[i];
    j += from_right;
    i += !from_right;
  }
  return count;
}

// Sorts `x` in descending order and returns its inversions; whichever of the two arrays holds the
// result. `spare` has the same size.
int64_t sort_and_count(double*& x, double*& spare, int64_t n, const Context& context) {
  int64_t count = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    for (int64_t i = begin + 1; i < end; ++i) {
      const double moving = x[i];
      int64_t j = i;
      for (; j > begin && moving > x[j - 1]; --j) x[j] = x[j - 1];
      x[j] = moving;
      count += i - j;
    }
  }
  for (int64_t width = kBlock; width < n; width *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      if (width >= kInterruptSteps) context.check_interrupt();
      count += merge_and_count(x, begin, std::min(n, begin + width), std::min(n, begin + 2 * width),
                               spare);
    }
    std::swap(x, spare);
  }
  return count;
}

// The same for a large query: parts of kQueryPart items side by side, then merges of them, each of
// which is cut where its result has reached a multiple of kQueryPart items.
int64_t sort_and_count_large(double*& x, double*& spare, int64_t n, const Context& context) {
  const int64_t parts = (n + kQueryPart - 1) / kQueryPart;
  std::vector<int64_t> counts(static_cast<std::size_t>(parts));
  context.parallel_for(counts.size(), [&](std::size_t p, const Context& serial) {
    const int64_t begin = static_cast<int64_t>(p) * kQueryPart,
                  size = std::min(kQueryPart, n - begin);
    double *mine = x + begin, *other = spare + begin;
    counts[p] = sort_and_count(mine, other, size, serial);
    if (mine != x + begin) std::copy(mine, mine + size, x + begin);
  });
  int64_t count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (int64_t width = kQueryPart; width < n; width *= 2) {
    context.parallel_for(counts.size(), [&](std::size_t p, const Context&) {
      const int64_t at = static_cast<int64_t>(p) * kQueryPart,
                    begin = at / (2 * width) * (2 * width);
      const int64_t middle = std::min(n, begin + width), end = std::min(n, begin + 2 * width);
      counts[p] = merge_part(x, begin, middle, end, at, std::min(at + kQueryPart, end), spare);
    });
    count += std::accumulate(counts.begin(), counts.end(), int64_t{0});
    std::swap(x, spare);
  }
  return count;
}

struct Counts {
  int64_t wrong = 0, tied = 0, equal = 0;

  Counts& operator+=(const Counts& other) {
    wrong += other.wrong;
    tied += other.tied;
    equal += other.equal;
    return *this;
  }
};

// The ranking of one query: levels and scores by rank.
struct Ranking {
  double* level;
  const double* score;
  int64_t n;

  // Where the items with the score of p end.
  int64_t tie_end(int64_t p) const {
    const double here = score[p];
    while (++p < n && score[p] == here) {
    }
    return p;
  }
  // The first position from p on where another score begins.
  int64_t next_tie(int64_t p) const {
    return p == 0 || p >= n || score[p] != score[p - 1] ? std::min(p, n) : tie_end(p - 1);
  }
};

// Calls body(part, begin, end, context) for parts of a ranking that do not cut through ties.
template <class Body>
void for_each_whole_part(const Ranking& ranking, const Context& context, Body&& body) {
  if (ranking.n <= kLargeQuery) return body(0, 0, ranking.n);
  for_each_part(ranking.n, context, [&](std::size_t part, int64_t begin, int64_t end) {
    body(part, ranking.next_tie(begin), ranking.next_tie(end));
  });
}

std::size_t parts_of(int64_t n) {
  return n <= kLargeQuery ? 1 : static_cast<std::size_t>((n + kQueryPart - 1) / kQueryPart);
}

// --- A few levels --------------------------------------------------------------------------------

using Tally = std::array<uint32_t, kLevels>;

constexpr auto kAbove = [] {  // kAbove[l][m]: whether m > l
  std::array<Tally, kLevels> above{};
  for (std::size_t l = 0; l < kLevels; ++l) {
    for (std::size_t m = l + 1; m < kLevels; ++m) above[l][m] = 1;
  }
  return above;
}();

int64_t pairs_within(const Tally& count) {
  return std::accumulate(count.begin(), count.end(), int64_t{0},
                         [](int64_t sum, uint32_t n) { return sum + pairs_of(n); });
}

// Goes down the ranks begin .. end; below[l] is the number of items with levels below l so far.
// `levels` is at least the number of levels, and a multiple of kWidth.
template <int levels>
Counts count_down(const Ranking& ranking, const uint8_t* code, int64_t begin, int64_t end,
                  Tally& below) {
  Counts found;
  const auto add = [&below](uint8_t level) {
    for (int m = 0; m < levels; ++m) below[m] += kAbove[level][m];
  };
  for (int64_t p = begin; p < end;) {
    if (p + 1 == end || ranking.score[p + 1] != ranking.score[p]) {
      found.wrong += below[code[p]];
      add(code[p++]);
      continue;
    }
    const int64_t last = ranking.tie_end(p);
    Tally tie{};
    for (int64_t i = p; i < last; ++i) {
      found.wrong += below[code[i]];
      ++tie[code[i]];
    }
    found.equal += pairs_of(last - p);
    found.tied += pairs_of(last - p) - pairs_within(tie);
    for (; p < last; ++p) add(code[p]);
  }
  return found;
}

// Writes the levels as bytes and counts them; false if they are others than 0, 1, ...
bool as_bytes(const Ranking& ranking, int64_t begin, int64_t end, uint8_t* code, Tally& count) {
  for (int64_t p = begin; p < end; ++p) {
    const double level = ranking.level[p];
    if (!(level >= 0.0 && level < kLevels)) return false;
    code[p] = static_cast<uint8_t>(level);
    if (code[p] != level) return false;
    ++count[code[p]];
  }
  return true;
}

// Counts everything if the levels are few; `comparable` comes out as well.
bool count_few_levels(const Ranking& ranking, uint8_t* code, Counts& found, int64_t& comparable,
                      const Context& context) {
  std::vector<Tally> many;
  Tally one{};
  const std::size_t parts = parts_of(ranking.n);
  if (parts > 1) many.assign(parts, Tally{});
  Tally* const tally = parts > 1 ? many.data() : &one;
  std::vector<char> is_few(parts > 1 ? parts : 0, 0);
  bool all_few = true;
  for_each_whole_part(ranking, context, [&](std::size_t part, int64_t begin, int64_t end) {
    const bool few = as_bytes(ranking, begin, end, code, tally[part]);
    if (parts > 1) {
      is_few[part] = few;
    } else {
      all_few = few;
    }
  });
  all_few = all_few && std::all_of(is_few.begin(), is_few.end(), [](char few) { return few != 0; });
  if (!all_few) return false;
  Tally total{};
  for (std::size_t part = 0; part < parts; ++part) {  // each tally becomes that of lower levels
    uint32_t lower = 0;
    const Tally before = total;
    for (std::size_t l = 0; l < kLevels; ++l) {
      total[l] += tally[part][l];
      tally[part][l] = lower;
      lower += before[l];
    }
  }
  comparable = pairs_of(ranking.n) - pairs_within(total);
  const bool is_narrow = std::all_of(total.begin() + kWidth, total.end(), std::logical_not<>());
  std::vector<Counts> counts(parts > 1 ? parts : 0);
  for_each_whole_part(ranking, context, [&](std::size_t part, int64_t begin, int64_t end) {
    const auto count = is_narrow ? count_down<kWidth> : count_down<kLevels>;
    (parts > 1 ? counts[part] : found) = count(ranking, code, begin, end, tally[part]);
  });
  for (const Counts& part : counts) found += part;
  return true;
}

// --- Any levels ----------------------------------------------------------------------------------

// The pairs of equal neighbours in a sorted range.
int64_t equal_pairs(const double* x, int64_t n) {
  int64_t count = 0;
  for (int64_t begin = 0, i = 1; i <= n; ++i) {
    if (i < n && x[i] == x[begin]) continue;
    count += pairs_of(i - begin);
    begin = i;
  }
  return count;
}

// Sorts the levels.
void count_any_levels(const Ranking& ranking, double* spare, Counts& found, int64_t& comparable,
                      const Context& context) {
  double* level = ranking.level;
  std::vector<Counts> counts(parts_of(ranking.n));
  for_each_whole_part(ranking, context, [&](std::size_t part, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end;) {
      const int64_t last = ranking.tie_end(p), n = last - p;
      if (n > 1) {
        std::sort(level + p, level + last, std::greater<>());
        counts[part].equal += pairs_of(n);
        counts[part].tied += pairs_of(n) - equal_pairs(level + p, n);
      }
      p = last;
    }
  });
  for (const Counts& part : counts) found += part;
  if (ranking.n > kLargeQuery) {
    found.wrong = sort_and_count_large(level, spare, ranking.n, context);
  } else {
    found.wrong = sort_and_count(level, spare, ranking.n, context);
  }
  comparable = pairs_of(ranking.n) - equal_pairs(level, ranking.n);
}

}  // namespace

void count_ranked_pairs(const double* level, const double* score, const int64_t* order,
                        const int64_t* offsets, int64_t n_queries, const RankedPairs& out,
                        const Context& context) {
  const auto memory = std::make_shared<Memory>();
  for_each_query(offsets, n_queries, context, [&](int64_t q, const Context& inner) {
    const int64_t n = offsets[q + 1] - offsets[q];
    const int64_t* const row = order + offsets[q];
    QueryArray<double> levels(n, memory), scores(n, memory);
    QueryArray<uint8_t> code(n, memory);
    for_each_part(n, inner, [&](std::size_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) levels.data()[p] = level[row[p]];
      for (int64_t p = begin; p < end; ++p) scores.data()[p] = score[row[p]];
    });
    const Ranking ranking{levels.data(), scores.data(), n};
    Counts found;
    int64_t comparable = 0;
    if (!count_few_levels(ranking, code.data(), found, comparable, inner)) {
      QueryArray<double> spare(n, memory);
      count_any_levels(ranking, spare.data(), found, comparable, inner);
    }
    out.comparable[q] = comparable;
    out.wrong[q] = found.wrong;
    out.tied[q] = found.tied;
    out.equal[q] = found.equal;
  });
}

}  // namespace ranksvm
