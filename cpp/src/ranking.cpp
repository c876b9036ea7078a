// Small queries are sorted as keys with their places: insertion in short blocks, then merges that
// choose without branching. Large ones go to the radix sort.
#include "ranksvm/ranking.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ranksvm/buffer.hpp"
#include "ranksvm/sort.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kBlock = 16;                       // sorted by insertion
constexpr int64_t kMerged = 511;                     // above this the radix sort is faster
constexpr int64_t kBatch = 8192;                     // items that a thread takes at a time
constexpr int64_t kLarge = int64_t{1} << 16;         // a query for all threads together
constexpr int64_t kPart = int64_t{1} << 14;          // of such a query, for one thread
constexpr int64_t kWorthThreads = int64_t{1} << 15;  // less is done before others have woken up
constexpr int64_t kInterruptSteps = 4096;            // steps between two looks for an interrupt

// Calls body(q, context) for every query: small ones in batches, then each large one with all
// threads to itself.
template <class Body>
void for_each_query(const int64_t* offsets, int64_t n_queries, const Context& context,
                    Body&& body) {
  std::vector<std::pair<int64_t, int64_t>> batches;
  std::vector<int64_t> large;
  int64_t begin = 0;
  for (int64_t q = 0; q < n_queries; ++q) {
    const bool is_large = offsets[q + 1] - offsets[q] > kLarge;
    if (is_large || offsets[q + 1] - offsets[begin] > kBatch) {
      if (q > begin) batches.emplace_back(begin, q);
      begin = is_large ? q + 1 : q;
    }
    if (is_large) large.push_back(q);
  }
  if (n_queries > begin) batches.emplace_back(begin, n_queries);
  const bool worth = offsets[n_queries] >= kWorthThreads;
  (worth ? context : context.one_thread())
      .parallel_for(batches.size(), [&](std::size_t b, const Context& serial) {
        for (int64_t q = batches[b].first; q < batches[b].second; ++q) body(q, serial);
      });
  for (const int64_t q : large) body(q, context);
}

// Calls body(begin, end) for parts of a query.
template <class Body>
void for_each_part(int64_t n, const Context& context, Body&& body) {
  context.parallel_for((n + kPart - 1) / kPart, [&](std::size_t p, const Context&) {
    const int64_t begin = static_cast<int64_t>(p) * kPart;
    body(begin, std::min(begin + kPart, n));
  });
}

struct Keyed {
  double key;
  uint32_t place;
};

// Sorts ascending and stably; returns whichever of the two arrays holds the result.
const Keyed* sort_keyed(Keyed* keyed, Keyed* spare, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    for (int64_t i = begin + 1; i < end; ++i) {
      const Keyed moving = keyed[i];
      int64_t j = i;
      for (; j > begin && moving.key < keyed[j - 1].key; --j) keyed[j] = keyed[j - 1];
      keyed[j] = moving;
    }
  }
  for (int64_t width = kBlock; width < n; width *= 2) {
    Keyed* out = spare;
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      const Keyed* left = keyed + begin;
      const Keyed* right = keyed + std::min(n, begin + width);
      const Keyed* const left_end = right;
      const Keyed* const right_end = keyed + std::min(n, begin + 2 * width);
      while (left != left_end && right != right_end) {
        const bool from_right = right->key < left->key;
        *out++ = *(from_right ? right : left);
        right += from_right;
        left += !from_right;
      }
      out = std::copy(left, left_end, out);
      out = std::copy(right, right_end, out);
    }
    std::swap(keyed, spare);
  }
  return keyed;
}

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

// The same for a large query: parts of kPart items side by side, then merges of them, each of which
// is cut where its result has reached a multiple of kPart items.
int64_t sort_and_count_large(double* x, double* spare, int64_t n, const Context& context) {
  const int64_t parts = (n + kPart - 1) / kPart;
  std::vector<int64_t> counts(static_cast<std::size_t>(parts));
  context.parallel_for(counts.size(), [&](std::size_t p, const Context& serial) {
    const int64_t begin = static_cast<int64_t>(p) * kPart, size = std::min(kPart, n - begin);
    double *mine = x + begin, *other = spare + begin;
    counts[p] = sort_and_count(mine, other, size, serial);
    if (mine != x + begin) std::copy(mine, mine + size, x + begin);
  });
  int64_t count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (int64_t width = kPart; width < n; width *= 2) {
    context.parallel_for(counts.size(), [&](std::size_t p, const Context&) {
      const int64_t at = static_cast<int64_t>(p) * kPart, begin = at / (2 * width) * (2 * width);
      const int64_t middle = std::min(n, begin + width), end = std::min(n, begin + 2 * width);
      counts[p] = merge_part(x, begin, middle, end, at, std::min(at + kPart, end), spare);
    });
    count += std::accumulate(counts.begin(), counts.end(), int64_t{0});
    std::swap(x, spare);
  }
  return count;
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

void rank_items(const double* score, const int64_t* rows, const int64_t* offsets, int64_t n_queries,
                int64_t* order, const Context& context) {
  const auto memory = std::make_shared<Memory>();
  for_each_query(offsets, n_queries, context, [&](int64_t q, const Context& inner) {
    const int64_t n = offsets[q + 1] - offsets[q];
    const int64_t* const row = rows + offsets[q];
    int64_t* const out = order + offsets[q];
    if (n <= kMerged) {
      Keyed keyed[kMerged], spare[kMerged];
      for (int64_t i = 0; i < n; ++i) keyed[i] = {-score[row[i]], static_cast<uint32_t>(i)};
      const Keyed* sorted = sort_keyed(keyed, spare, n);
      for (int64_t i = 0; i < n; ++i) out[i] = row[sorted[i].place];
      return;
    }
    if (n > static_cast<int64_t>(UINT32_MAX)) {
      throw std::length_error("a query has " + std::to_string(n) +
                              " items; at most 2^32 - 1 are supported");
    }
    Buffer<double> key(n, memory), sorted(n, memory);
    Buffer<uint32_t> place(n, memory);
    for_each_part(n, inner, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) key[i] = -score[row[i]];
    });
    argsort(key.data(), static_cast<uint32_t>(n), place.data(), sorted.data(), memory, inner);
    for_each_part(n, inner, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = row[place[i]];
    });
  });
}

void running_sums(const double* x, const int64_t* offsets, int64_t n_queries, double* out,
                  const Context& context) {
  for_each_query(offsets, n_queries, context, [&](int64_t q, const Context&) {
    double sum = 0.0;
    for (int64_t p = offsets[q]; p < offsets[q + 1]; ++p) out[p] = sum += x[p];
  });
}

void count_inversions(const double* x, const int64_t* offsets, int64_t n_queries, int64_t* count,
                      const Context& context) {
  const auto memory = std::make_shared<Memory>();
  for_each_query(offsets, n_queries, context, [&](int64_t q, const Context& inner) {
    const int64_t n = offsets[q + 1] - offsets[q];
    const double* const from = x + offsets[q];
    if (n <= kMerged) {
      double work[kMerged], spare[kMerged];
      std::copy(from, from + n, work);
      double *sorted = work, *other = spare;
      count[q] = sort_and_count(sorted, other, n, inner);
      return;
    }
    Buffer<double> work(n, memory), spare(n, memory);
    double *sorted = work.data(), *other = spare.data();
    for_each_part(n, inner, [&](int64_t begin, int64_t end) {
      std::copy(from + begin, from + end, work.data() + begin);
    });
    count[q] = n > kLarge ? sort_and_count_large(sorted, other, n, inner)
                          : sort_and_count(sorted, other, n, inner);
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
