// Radix sort on a 32-bit linear quantisation of the keys (three passes of 11 bits over 8-byte
// records), then a repair of the runs that share a quantised key. Subtraction and multiplication
// round monotonically, so the quantisation never reverses two keys. A long run, as outliers
// produce, is sorted again on its own scale.
#include "ranksvm/sort.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace ranksvm {
namespace {

constexpr unsigned kBits = 11, kBuckets = 1U << kBits, kPasses = 3;
constexpr uint32_t kSmall = 512;     // below this std::sort is faster
constexpr uint32_t kLongRun = 4096;  // above this a run is quantised again
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

// Sorts `index` (ascending on entry) by key, stably, through records of quantised key and index.
void radix_argsort(const double* key, const uint32_t* index, uint32_t n, double low, double high,
                   uint32_t* order, const std::shared_ptr<Memory>& memory, const Context& context) {
  if (!(high * 0.5 - low * 0.5 > 0.0)) {  // the last bit of the smallest numbers
    for (uint32_t i = 0; i < n; ++i) order[i] = index == nullptr ? i : index[i];
    std::sort(order, order + n, Before{key});
    return;
  }
  const Pieces pieces(n);
  const std::size_t count = pieces.count();
  Buffer<uint64_t> first(n, memory), second(n, memory);
  Buffer<uint32_t> histograms(count * kBuckets * kPasses, memory);
  uint32_t* const histogram = histograms.data();
  // Half the range, so that it cannot overflow; zoomed, so that its inverse cannot either.
  const double half = high * 0.5 - low * 0.5;
  const double zoom = half < 1e-290 ? std::ldexp(1.0, 1000) : 1.0;
  const double scale = (4294967295.0 / 2) / (half * zoom);
  uint64_t* from = first.data();
  uint64_t* to = second.data();
  pieces.each(context, [&](std::size_t piece, uint32_t begin, uint32_t end) {
    uint32_t* h = histogram + piece * kBuckets * kPasses;
    std::memset(h, 0, sizeof(uint32_t) * kBuckets * kPasses);
    for (uint32_t i = begin; i < end; ++i) {
      const uint32_t x = index == nullptr ? i : index[i];
      const double scaled = (key[x] * 0.5 - low * 0.5) * zoom * scale * 2.0;
      const uint32_t q = static_cast<uint32_t>(std::min(scaled, 4294967295.0));
      from[i] = (static_cast<uint64_t>(q) << 32) | x;
      ++h[q & (kBuckets - 1)];
      ++h[kBuckets + ((q >> kBits) & (kBuckets - 1))];
      ++h[2 * kBuckets + (q >> (2 * kBits))];
    }
  });
  for (unsigned pass = 0; pass < kPasses; ++pass) {
    const unsigned shift = 32 + pass * kBits;
    if (pass > 0 && count > 1) {  // the pieces hold other records than when they were counted
      pieces.each(context, [&](std::size_t piece, uint32_t begin, uint32_t end) {
        uint32_t* h = histogram + (piece * kPasses + pass) * kBuckets;
        std::memset(h, 0, sizeof(uint32_t) * kBuckets);
        for (uint32_t i = begin; i < end; ++i) ++h[(from[i] >> shift) & (kBuckets - 1)];
      });
    }
    uint32_t total = 0;
    for (unsigned bucket = 0; bucket < kBuckets; ++bucket) {
      for (std::size_t piece = 0; piece < count; ++piece) {
        uint32_t& h = histogram[(piece * kPasses + pass) * kBuckets + bucket];
        const uint32_t own = h;
        h = total;
        total += own;
      }
    }
    pieces.each(context, [&](std::size_t piece, uint32_t begin, uint32_t end) {
      uint32_t* h = histogram + (piece * kPasses + pass) * kBuckets;
      for (uint32_t i = begin; i < end; ++i) {
        const uint64_t record = from[i];
        to[h[(record >> shift) & (kBuckets - 1)]++] = record;
      }
    });
    std::swap(from, to);
  }
  // Runs of one quantised key. They are short unless the keys are unevenly spread. A piece has
  // those that begin in it; long ones wait for all threads.
  auto quantised = [&](uint32_t i) { return static_cast<uint32_t>(from[i] >> 32); };
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> long_runs(count);
  pieces.each(context, [&](std::size_t, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) order[i] = static_cast<uint32_t>(from[i]);
  });
  pieces.each(context, [&](std::size_t piece, uint32_t begin, uint32_t end) {
    while (begin > 0 && begin < end && quantised(begin) == quantised(begin - 1)) ++begin;
    while (begin < end) {
      const uint32_t q = quantised(begin);
      uint32_t after = begin + 1;
      while (after < n && quantised(after) == q) ++after;
      if (after - begin > kLongRun) {
        long_runs[piece].emplace_back(begin, after);
      } else if (after - begin > 1) {
        std::sort(order + begin, order + after, Before{key});
      }
      begin = after;
    }
  });
  for (const auto& runs : long_runs) {
    for (const auto& [begin, end] : runs) {
      const uint32_t length = end - begin;
      uint32_t* run = order + begin;
      double run_low = key[run[0]], run_high = run_low;
      for (uint32_t i = 1; i < length; ++i) {
        run_low = std::min(run_low, key[run[i]]);
        run_high = std::max(run_high, key[run[i]]);
      }
      if (run_low < run_high) {
        const std::vector<uint32_t> inner(run, run + length);
        radix_argsort(key, inner.data(), length, run_low, run_high, run, std::make_shared<Memory>(),
                      context);  // of a size that will not come again
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
