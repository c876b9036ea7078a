// Small queries are sorted as keys with their places: distributed to as many buckets as there are
// items by a linear function of the key, then repaired by insertion, which finds little to do
// unless the keys are spread very unevenly; then merges go on from there. All steps are stable.
// Large queries go to the radix sort. Of a few first ranks only these are repaired, and of a large
// query the best so far are kept while going through the items.
#include "ranksvm/ranking.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ranksvm/buffer.hpp"
#include "ranksvm/query_loop.hpp"
#include "ranksvm/sort.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kInserted = 12;   // up to this, insertion alone is fastest
constexpr int64_t kMerged = 511;    // above this the radix sort is faster
constexpr int64_t kBuckets = 512;   // at least kMerged
constexpr int64_t kBlock = 16;      // sorted by insertion before merges
constexpr int64_t kSteps = 4;       // of insertion by item, before merges take over
constexpr int64_t kFewRanks = 128;  // of a large query that are kept sorted

struct Keyed {
  double key;
  uint32_t place;
};

// Sorts `keyed` ascending and stably by insertion. Gives up after about `budget` steps; what it
// leaves has equal keys in their order.
bool insert_all(Keyed* keyed, int64_t n, int64_t budget) {
  for (int64_t i = 1; i < n; ++i) {
    if (!(keyed[i].key < keyed[i - 1].key)) continue;
    const Keyed moving = keyed[i];
    int64_t j = i;
    for (; j > 0 && moving.key < keyed[j - 1].key; --j) keyed[j] = keyed[j - 1];
    keyed[j] = moving;
    budget -= i - j;
    if (budget < 0) return false;
  }
  return true;
}

// Sorts ascending and stably; returns whichever of the two arrays holds the result.
const Keyed* merge_sort(Keyed* keyed, Keyed* spare, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    insert_all(keyed + begin, std::min(kBlock, n - begin), kBlock * kBlock);
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

// Sorts ascending and stably, at least the first `wanted`; returns whichever of the two arrays
// holds the result. n is at most kMerged.
const Keyed* sort_keyed(Keyed* keyed, Keyed* spare, int64_t n, int64_t wanted) {
  if (n <= kInserted) {
    insert_all(keyed, n, kMerged * kMerged);
    return keyed;
  }
  double low = keyed[0].key, high = low;
  for (int64_t i = 1; i < n; ++i) {
    low = std::min(low, keyed[i].key);
    high = std::max(high, keyed[i].key);
  }
  if (low == high) return keyed;
  const std::size_t buckets = std::bit_ceil(static_cast<std::size_t>(n));
  const double scale = static_cast<double>(buckets - 1) / (high - low);
  // The keys are too far apart, or too near, for such a scale.
  if (!(scale > 0.0 && scale <= std::numeric_limits<double>::max())) {
    return merge_sort(keyed, spare, n);
  }
  // Subtraction and multiplication round monotonically, so that no two keys change their order.
  uint16_t bucket[kMerged], end[kBuckets] = {};
  for (int64_t i = 0; i < n; ++i) {
    bucket[i] = static_cast<uint16_t>(static_cast<int32_t>((keyed[i].key - low) * scale));
    ++end[bucket[i]];
  }
  uint16_t sum = 0, repaired = 0;  // up to the end of the bucket with the last item that is wanted
  for (std::size_t b = 0; b < buckets; ++b) {
    const uint16_t begin = sum;
    sum = static_cast<uint16_t>(sum + end[b]);
    end[b] = begin;
    if (begin < wanted) repaired = sum;
  }
  for (int64_t i = 0; i < n; ++i) spare[end[bucket[i]]++] = keyed[i];
  if (insert_all(spare, repaired, kSteps * n)) return spare;
  return merge_sort(spare, keyed, n);
}

// The `wanted` smallest of the keys that were added, sorted; of equal keys the first ones.
class Best {
 public:
  explicit Best(int64_t wanted) : wanted_(wanted), best_(static_cast<std::size_t>(wanted) + 1) {}

  void add(Keyed item) {
    if (size_ == wanted_ && !(item.key < best_[size_ - 1].key)) return;
    int64_t j = size_;
    for (; j > 0 && item.key < best_[j - 1].key; --j) best_[j] = best_[j - 1];
    best_[j] = item;
    size_ = std::min(size_ + 1, wanted_);
  }
  const Keyed* begin() const { return best_.data(); }
  const Keyed* end() const { return best_.data() + size_; }

 private:
  int64_t wanted_, size_ = 0;
  std::vector<Keyed> best_;
};

// The first `wanted` ranks of a query of n items.
void rank_query(const double* score, const int64_t* row, int64_t n, int64_t wanted, int64_t* out,
                const std::shared_ptr<Memory>& memory, const Context& context) {
  if (n <= kMerged) {
    Keyed keyed[kMerged], spare[kMerged];
    for (int64_t i = 0; i < n; ++i) keyed[i] = {-score[row[i]], static_cast<uint32_t>(i)};
    const Keyed* sorted = sort_keyed(keyed, spare, n, wanted);
    for (int64_t i = 0; i < wanted; ++i) out[i] = row[sorted[i].place];
    return;
  }
  if (n > static_cast<int64_t>(std::numeric_limits<uint32_t>::max())) {
    throw std::length_error("a query has " + std::to_string(n) +
                            " items; at most 2^32 - 1 are supported");
  }
  if (wanted <= std::min(kFewRanks, n / 8)) {
    const int64_t parts = (n + kQueryPart - 1) / kQueryPart;
    std::vector<Best> best(static_cast<std::size_t>(parts), Best(wanted));
    for_each_part(n, context, [&](std::size_t part, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        best[part].add({-score[row[i]], static_cast<uint32_t>(i)});
      }
    });
    for (std::size_t part = 1; part < best.size(); ++part) {
      for (const Keyed& item : best[part]) best[0].add(item);
    }
    std::transform(best[0].begin(), best[0].end(), out,
                   [&](const Keyed& k) { return row[k.place]; });
    return;
  }
  Buffer<double> key(n, memory), sorted(n, memory);
  Buffer<uint32_t> place(n, memory);
  for_each_part(n, context, [&](std::size_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) key[i] = -score[row[i]];
  });
  argsort(key.data(), static_cast<uint32_t>(n), place.data(), sorted.data(), memory, context);
  for_each_part(wanted, context, [&](std::size_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = row[place[i]];
  });
}

}  // namespace

void rank_items(const double* score, const int64_t* rows, const int64_t* offsets, int64_t n_queries,
                int64_t* order, const Context& context) {
  rank_first(score, rows, offsets, n_queries, offsets, order, context);
}

void rank_first(const double* score, const int64_t* rows, const int64_t* offsets, int64_t n_queries,
                const int64_t* top_offsets, int64_t* order, const Context& context) {
  const auto memory = std::make_shared<Memory>();
  for_each_query(offsets, n_queries, context, [&](int64_t q, const Context& inner) {
    rank_query(score, rows + offsets[q], offsets[q + 1] - offsets[q],
               top_offsets[q + 1] - top_offsets[q], order + top_offsets[q], memory, inner);
  });
}

}  // namespace ranksvm
