// Radix sort on a linear quantisation of the keys, in records of quantised key and index. One pass
// through memory distributes the records to buckets by the leading bits; a bucket fits into the
// cache, where two passes of a byte each sort it. Then the runs that share a quantised key are
// repaired. Subtraction and multiplication round monotonically, so the quantisation never reverses
// two keys. A long run, as outliers produce, is sorted again on its own scale.
#include "ranksvm/sort.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

namespace ranksvm {
namespace {

constexpr unsigned kLowBits = 16;           // sorted inside the buckets, a byte at a time
constexpr unsigned kLeast = 4, kMost = 11;  // leading bits
constexpr uint32_t kBucket = 512;           // items of a bucket, about
constexpr uint32_t kSmall = 512;            // below this std::sort is faster
constexpr uint32_t kFew = 64;               // also inside a bucket
constexpr uint32_t kLongRun = 4096;         // above this a run is quantised again
constexpr uint32_t kLongBucket = 1U << 16;  // likewise, if it has a large part of all items

// Pieces of a parallel pass: of at least so many items, and not too many, since every piece has a
// histogram.
constexpr uint32_t kPiece = 1U << 14, kMostPieces = 64;
// Fewer items are sorted before other threads have woken up; on one thread, one piece is faster.
constexpr uint32_t kWorthPieces = 1U << 16;

// Equal ranges of [0, n).
class Pieces {
 public:
  explicit Pieces(uint32_t n)
      : n_(n), count_(n < kWorthPieces ? 1 : std::min(kMostPieces, n / kPiece)) {}
  std::size_t count() const { return count_; }
  uint32_t begin(std::size_t piece) const {
    return static_cast<uint32_t>(static_cast<uint64_t>(n_) * piece / count_);
  }
  // body(piece, begin, end), in parallel.
  template <class Body>
  void each(const Context& context, Body&& body) const {
    context.parallel_for(count_, [&](std::size_t piece, const Context&) {
      body(piece, begin(piece), begin(piece + 1));
    });
  }

 private:
  uint32_t n_, count_;
};

struct Before {
  const double* key;
  bool operator()(uint32_t a, uint32_t b) const {
    return key[a] < key[b] || (key[a] == key[b] && a < b);
  }
};

void small_argsort(const double* key, uint32_t n, uint32_t* order) {
  for (uint32_t i = 0; i < n; ++i) order[i] = i;
  if (n <= 24) {
    for (uint32_t i = 1; i < n; ++i) {
      const uint32_t x = order[i];
      const double k = key[x];
      uint32_t j = i;
      for (; j > 0 && key[order[j - 1]] > k; --j) order[j] = order[j - 1];
      order[j] = x;
    }
    return;
  }
  std::sort(order, order + n, Before{key});
}

// Sorts records by their quantised key, stably; `spare` is as long.
void sort_bucket(uint64_t* records, uint32_t n, uint64_t* spare) {
  if (n <= kFew) {
    std::sort(records, records + n);  // the index makes it stable
    return;
  }
  for (unsigned shift = 32; shift < 32 + kLowBits; shift += 8) {
    uint32_t start[257] = {};
    for (uint32_t i = 0; i < n; ++i) ++start[((records[i] >> shift) & 255) + 1];
    for (unsigned d = 0; d < 256; ++d) start[d + 1] += start[d];
    for (uint32_t i = 0; i < n; ++i) spare[start[(records[i] >> shift) & 255]++] = records[i];
    std::swap(records, spare);
  }
}
static_assert(kLowBits % 16 == 0);  // an even number of passes ends where it began

// Sorts `index` (ascending on entry) by key, stably.
void radix_argsort(const double* key, const uint32_t* index, uint32_t n, double low, double high,
                   uint32_t* order, const std::shared_ptr<Memory>& memory, const Context& context) {
  if (!(high * 0.5 - low * 0.5 > 0.0)) {  // the last bit of the smallest numbers
    for (uint32_t i = 0; i < n; ++i) order[i] = index == nullptr ? i : index[i];
    std::sort(order, order + n, Before{key});
    return;
  }
  const auto bits = std::clamp(static_cast<unsigned>(std::bit_width(n / kBucket)), kLeast, kMost);
  const std::size_t buckets = std::size_t{1} << bits;
  const Pieces pieces(n);
  const std::size_t count = pieces.count();
  Buffer<uint64_t> first(n, memory), second(n, memory);
  Buffer<uint32_t> histograms(count * buckets, memory);
  uint32_t* const histogram = histograms.data();
  // Half the range, so that it cannot overflow; zoomed, so that its inverse cannot either.
  const double half = high * 0.5 - low * 0.5;
  const double zoom = half < 1e-290 ? std::ldexp(1.0, 1000) : 1.0;
  const double largest = std::ldexp(1.0, static_cast<int>(bits + kLowBits)) - 1.0;
  const double scale = (largest / 2) / (half * zoom);
  pieces.each(context, [&](std::size_t piece, uint32_t begin, uint32_t end) {
    uint32_t* h = histogram + piece * buckets;
    std::fill_n(h, buckets, 0U);
    for (uint32_t i = begin; i < end; ++i) {
      const uint32_t x = index == nullptr ? i : index[i];
      const double scaled = (key[x] * 0.5 - low * 0.5) * zoom * scale * 2.0;
      const auto q = static_cast<uint32_t>(std::min(scaled, largest));
      first[i] = (static_cast<uint64_t>(q) << 32) | x;
      ++h[q >> kLowBits];
    }
  });
  std::vector<uint32_t> starts(buckets + 1);
  uint32_t total = 0;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    starts[bucket] = total;
    for (std::size_t piece = 0; piece < count; ++piece) {
      uint32_t& h = histogram[piece * buckets + bucket];
      const uint32_t own = h;
      h = total;
      total += own;
    }
  }
  starts[buckets] = n;
  pieces.each(context, [&](std::size_t piece, uint32_t begin, uint32_t end) {
    uint32_t* h = histogram + piece * buckets;
    for (uint32_t i = begin; i < end; ++i) second[h[first[i] >> (32 + kLowBits)]++] = first[i];
  });

  // Buckets are sorted side by side. What is too long for that waits for all threads.
  using Range = std::pair<uint32_t, uint32_t>;
  std::vector<std::vector<Range>> long_ones(count);
  auto quantised = [&](uint32_t i) { return second[i] >> 32; };
  auto finish = [&](uint32_t begin, uint32_t end, std::vector<Range>& too_long) {
    const bool is_long = end - begin > kLongBucket && end - begin > n / 16;
    if (!is_long) sort_bucket(second.data() + begin, end - begin, first.data() + begin);
    for (uint32_t i = begin; i < end; ++i) order[i] = static_cast<uint32_t>(second[i]);
    if (is_long) return too_long.emplace_back(begin, end), void();
    for (uint32_t run = begin; run < end;) {
      uint32_t after = run + 1;
      while (after < end && quantised(after) == quantised(run)) ++after;
      if (after - run > kLongRun) {
        too_long.emplace_back(run, after);
      } else if (after - run > 1) {
        std::sort(order + run, order + after, Before{key});
      }
      run = after;
    }
  };
  pieces.each(context, [&](std::size_t piece, uint32_t begin, uint32_t end) {
    // The buckets that begin in this piece.
    auto bucket = std::lower_bound(starts.begin(), starts.end() - 1, begin) - starts.begin();
    for (; bucket < static_cast<std::ptrdiff_t>(buckets) && starts[bucket] < end; ++bucket) {
      if (starts[bucket] < starts[bucket + 1]) {
        finish(starts[bucket], starts[bucket + 1], long_ones[piece]);
      }
    }
  });
  for (const auto& ranges : long_ones) {
    for (const auto& [begin, end] : ranges) {
      uint32_t* run = order + begin;
      double run_low = key[run[0]], run_high = run_low;
      for (uint32_t i = 1; i < end - begin; ++i) {
        run_low = std::min(run_low, key[run[i]]);
        run_high = std::max(run_high, key[run[i]]);
      }
      if (run_low < run_high) {
        const std::vector<uint32_t> inner(run, order + end);
        radix_argsort(key, inner.data(), end - begin, run_low, run_high, run,
                      std::make_shared<Memory>(), context);  // of a size that will not come again
      }
    }
  }
}

}  // namespace

void argsort(const double* key, uint32_t n, uint32_t* order, double* sorted,
             const std::shared_ptr<Memory>& memory, const Context& context) {
  const Pieces pieces(n);
  if (n < kSmall) {
    small_argsort(key, n, order);
  } else {
    std::vector<std::pair<double, double>> ranges(pieces.count());
    pieces.each(context, [&](std::size_t piece, uint32_t begin, uint32_t end) {
      double low = key[begin], high = key[begin];
      for (uint32_t i = begin + 1; i < end; ++i) {
        low = std::min(low, key[i]);
        high = std::max(high, key[i]);
      }
      ranges[piece] = {low, high};
    });
    double low = key[0], high = key[0];
    for (const auto& [lowest, highest] : ranges) {
      low = std::min(low, lowest);
      high = std::max(high, highest);
    }
    if (low == high) {
      for (uint32_t i = 0; i < n; ++i) order[i] = i;
    } else {
      radix_argsort(key, nullptr, n, low, high, order, memory, context);
    }
  }
  pieces.each(context, [&](std::size_t, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) sorted[i] = key[order[i]];
  });
}

}  // namespace ranksvm
