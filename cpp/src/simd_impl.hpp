// Body of simd_base.cpp, simd_avx2.cpp and simd_avx512.cpp: the loops over the primitives that each
// of them defines first (namespace simd: SumRow, CountRow, NetCount, MaskedSums,
// below_margin_bits, add_masked, and the vectors of simd_vector_*.hpp).
//
// These files are compiled for different instruction sets, so nothing here may have external
// linkage or instantiate anything shared with the rest of the library (no standard containers or
// algorithms): the linker would keep one copy of it, perhaps the one that old machines cannot run.
#include <cstdint>
#include <limits>

#include "ranksvm/simd.hpp"
#include "simd_tiles_impl.hpp"

namespace ranksvm {
namespace {

// First of n ascending ranks that is at least `from`.
inline uint32_t first_at_least(const uint32_t* rank, uint32_t n, uint32_t from) {
  uint32_t begin = 0;
  while (from > 0 && n > 0) {
    const uint32_t half = n / 2;
    if (rank[begin + half] < from) {
      begin += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return begin;
}

inline uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

// An item leaves its node for the one below, or for its final position.
inline void move_on(const CountSweep& s, uint32_t p, uint32_t child_hi, uint32_t above) {
  const uint32_t target = s.target[p];
  const PairCount count{s.count[p].above + above, s.count[p].below};
  if (s.child_inner[s.digit[p]]) {
    s.position_to[target] = s.position[p];
    s.hi_to[target] = child_hi;
    s.lo_to[target] = s.child_lo[p];
    s.count_to[target] = count;
  } else {
    s.count_final[target] = count;
  }
}

// Both sweeps go through the items window by window: fill the rows of the window, then make the two
// look-ups for the items whose ranks fall into it. Ranks ascend, so each look-up is one pointer
// that only moves forward. A look-up of rank r reads the row before item r, so the last row of a
// window belongs to the next one, except at the end of the node. As lo[p] <= p < hi[p], the upper
// look-up of an item comes last.
template <bool kMoves>
void count_sweep(const CountSweep& s) {
  alignas(64) uint32_t table[(kWindow + 1) * kLanes];
  uint32_t lower = first_at_least(s.lo, s.n, s.first);
  uint32_t upper = first_at_least(s.hi, s.n, s.first);
  simd::CountRow row(s.start);
  for (uint32_t from = s.first;; from += kWindow) {
    const uint32_t to = min_u32(from + kWindow, s.last);
    const uint32_t limit = to == s.n ? s.n + 1 : to;
    row.store(table);
    for (uint32_t h = from; h < to; ++h) {
      const uint8_t digit = s.digit[h];
      const uint32_t* counts = table + (h - from) * kLanes + digit;
      s.target[h] =
          s.child_inner[digit] ? s.child_begin[digit] + counts[0] - counts[1] : s.position[h];
      row.add(digit);
      row.store(table + (h + 1 - from) * kLanes);
    }
    uint32_t p = lower;
    for (; p < s.n && s.lo[p] < limit; ++p) {
      const uint8_t digit = s.digit[p];
      const uint32_t* counts = table + (s.lo[p] - from) * kLanes + digit;
      s.child_lo[p] = counts[0] - counts[1];
      s.count[p].below += s.child_begin[digit] - s.node - s.lo[p] + counts[0];
    }
    lower = p;
    for (p = upper; p < s.n && s.hi[p] < limit; ++p) {
      const uint32_t* counts = table + (s.hi[p] - from) * kLanes + s.digit[p];
      if constexpr (kMoves) {
        move_on(s, p, counts[0] - counts[1], counts[1]);
      } else {
        s.upper[p] = {counts[0] - counts[1], counts[1]};
      }
    }
    upper = p;
    if (to == s.last) break;
  }
}

void run_count_sweep(const CountSweep& s, Round round) {
  if (round == Round::all) return count_sweep<true>(s);
  if (round == Round::look_up) return count_sweep<false>(s);
  for (uint32_t p = s.first; p < s.last; ++p) move_on(s, p, s.upper[p].child_hi, s.upper[p].above);
}

// Payload k of the worse and of the better partners.
inline void take_lower(SumRecord& r, unsigned, double below) { r.sum += below; }
inline void take_lower(SplitRecord& r, unsigned, double below) { r.below += below; }
inline void take_lower(NetRecord& r, unsigned k, double below) { r.net[k] -= below; }
inline void take_upper(SumRecord& r, unsigned, double above) { r.sum += above; }
inline void take_upper(SplitRecord& r, unsigned, double above) { r.above += above; }
inline void take_upper(NetRecord& r, unsigned k, double above) { r.net[k] += above; }
// The first payload is that of the better partners, the second one that of the worse ones.
inline void take_lower(RoleRecord& r, unsigned k, double below) {
  if (k == 1) r.below += below;
}
inline void take_upper(RoleRecord& r, unsigned k, double above) {
  if (k == 0) r.above += above;
}

// The running sums of all payloads.
template <unsigned kPayloads>
struct SumRows;
template <>
struct SumRows<1> {
  simd::SumRow row;
  explicit SumRows(const double* from) : row(from) {}
  void add(uint8_t digit, const double* value) { row.add(digit, value[0]); }
  void store(double* to) const { row.store(to); }
};
template <>
struct SumRows<2> {
  simd::SumRow first, second;
  explicit SumRows(const double* from) : first(from), second(from + kLanes) {}
  void add(uint8_t digit, const double* value) {
    first.add(digit, value[0]);
    second.add(digit, value[1]);
  }
  void store(double* to) const {
    first.store(to);
    second.store(to + kLanes);
  }
};

template <bool kMoves, class Rec>
void sum_sweep(const SumSweep<Rec>& s) {
  constexpr unsigned kPayloads = Rec::kPayloads, kWidth = kPayloads * kLanes;
  constexpr uint32_t kRows = kWindow / kPayloads;  // as large a table for any number of payloads
  alignas(64) double table[(kRows + 1) * kWidth];
  uint32_t lower = first_at_least(s.lo, s.n, s.first);
  uint32_t upper = first_at_least(s.hi, s.n, s.first);
  SumRows<kPayloads> rows(s.start);
  for (uint32_t from = s.first;; from += kRows) {
    const uint32_t to = min_u32(from + kRows, s.last);
    const uint32_t limit = to == s.n ? s.n + 1 : to;
    rows.store(table);
    for (uint32_t h = from; h < to; ++h) {
      rows.add(s.digit[h], s.in[h].value);
      rows.store(table + (h + 1 - from) * kWidth);
    }
    uint32_t p = lower;
    for (; p < s.n && s.lo[p] < limit; ++p) {
      const double* sums = table + (s.lo[p] - from) * kWidth;
      for (unsigned k = 0; k < kPayloads; ++k, sums += kLanes) {
        take_lower(s.in[p], k, sums[s.digit[p]] - sums[0]);
      }
    }
    lower = p;
    for (p = upper; p < s.n && s.hi[p] < limit; ++p) {
      const double* above = table + (s.hi[p] - from) * kWidth + s.digit[p] + 1;
      if constexpr (kMoves) {
        Rec record = s.in[p];
        for (unsigned k = 0; k < kPayloads; ++k) take_upper(record, k, above[k * kLanes]);
        s.out[s.target[p]] = record;
      } else {
        for (unsigned k = 0; k < kPayloads; ++k) s.upper[p * kPayloads + k] = above[k * kLanes];
      }
    }
    upper = p;
    if (to == s.last) break;
  }
  rows.store(s.end);
}

template <class Rec>
void run_sum_sweep(const SumSweep<Rec>& s, Round round) {
  if (round == Round::all) return sum_sweep<true>(s);
  if (round == Round::look_up) return sum_sweep<false>(s);
  for (uint32_t p = s.first; p < s.last; ++p) {
    Rec record = s.in[p];
    for (unsigned k = 0; k < Rec::kPayloads; ++k) {
      take_upper(record, k, s.upper[p * Rec::kPayloads + k]);
    }
    s.out[s.target[p]] = record;
  }
}

// Bits [from, 64) and [0, to) of a word; from and to may lie outside of it.
inline uint64_t bits_from(int from) {
  return from <= 0 ? ~uint64_t{0} : from >= 64 ? 0 : ~uint64_t{0} << from;
}
inline uint64_t bits_until(int to) { return ~bits_from(to); }

void leaf_masks(const double* score, const uint32_t* level, unsigned n, double margin,
                uint64_t* mask, PairCount* count) {
  // Both signs of the scores, so that one comparison serves both sides: score[l] - s < margin where
  // l is better, -score[l] - -s < margin where it is worse. NaN compares false: the padding is in
  // no pair.
  alignas(64) double plus[kMaskItems], minus[kMaskItems];
  const unsigned words = mask_words(n), width = (n + 7) / 8 * 8;
  for (unsigned i = 0; i < n; ++i) {
    plus[i] = score[i];
    minus[i] = -score[i];
  }
  for (unsigned i = n; i < width; ++i) {
    plus[i] = minus[i] = std::numeric_limits<double>::quiet_NaN();
  }
  for (unsigned begin = 0; begin < n;) {
    unsigned end = begin + 1;
    while (end < n && level[end] == level[begin]) ++end;
    for (unsigned w = 0; w < words; ++w) {
      const int first = static_cast<int>(64 * w);
      const unsigned last = min_u32(64, width - 64 * w);
      // Blocks of eight lanes that hold better or worse items.
      const uint64_t better = bits_from(static_cast<int>(end) - first);
      const uint64_t worse = bits_until(static_cast<int>(begin) - first);
      const unsigned up = min_u32(last, end <= 64 * w ? 0 : (end - 64 * w) / 8 * 8);
      const unsigned down = begin <= 64 * w ? 0 : min_u32(last, (begin - 64 * w + 7) / 8 * 8);
      for (unsigned i = begin; i < end; ++i) {
        const uint64_t above =
            better & simd::below_margin_bits(plus + 64 * w, up, last, plus[i], margin);
        const uint64_t below =
            worse & simd::below_margin_bits(minus + 64 * w, 0, down, minus[i], margin);
        mask[i * words + w] = above | below;
        count[i].above += static_cast<uint32_t>(__builtin_popcountll(above));
        count[i].below += static_cast<uint32_t>(__builtin_popcountll(below));
      }
    }
    begin = end;
  }
}

void leaf_sums(const double* value, const uint64_t* mask, unsigned n, double* sum) {
  const unsigned words = mask_words(n);
  for (unsigned w = 0; w < words; ++w) {
    simd::add_masked(value, mask + w, words, n, min_u32(64, n - 64 * w), sum + 64 * w);
  }
}

// Some items at a time.
template <unsigned kPayloads>
void leaf_split(const double* const* value, const uint64_t* mask, unsigned n, double* const* above,
                double* const* below) {
  const unsigned words = mask_words(n);
  for (unsigned begin = 0; begin < n; begin += simd::kSplitLanes) {
    const unsigned end = min_u32(begin + simd::kSplitLanes, n), shift = begin % 64;
    const uint64_t* word = mask + begin / 64;
    simd::MaskedSums<kPayloads> worse, better;
    for (unsigned j = 0; j < begin; ++j) worse.add(word[j * words] >> shift, value, j);
    for (unsigned j = begin; j < end; ++j) {
      const uint64_t bits = word[j * words] >> shift;
      worse.add(bits & bits_from(static_cast<int>(j - begin) + 1), value, j);
      better.add(bits & bits_until(static_cast<int>(j - begin)), value, j);
    }
    for (unsigned j = end; j < n; ++j) better.add(word[j * words] >> shift, value, j);
    worse.store(below, begin);
    better.store(above, begin);
  }
}

// Vectors by hand: compilers make scalar code of the plain loops. Products are rounded before they
// are added, so all instruction sets give the same bits.
void add_gram(const double* a, const double* b, unsigned rows, unsigned width, double* gram) {
  using simd::Vec;
  constexpr unsigned kWidth = Vec::kWidth, kVectors = kWidth < 4 ? 2 : 8 / kWidth;
  constexpr unsigned kLines = kVectors > 1 ? 4 : 8, kTile = kVectors * kWidth;
  for (unsigned i = 0; i < width; i += kLines) {
    for (unsigned j = i / 8 * 8; j < width; j += kTile) {
      Vec sum[kLines][kVectors];  // stays in registers over all rows
      for (unsigned x = 0; x < kLines; ++x) {
        for (unsigned y = 0; y < kVectors; ++y) sum[x][y] = simd::splat(0.0);
      }
      const double *left = a + i, *right = b + j;
      for (unsigned r = 0; r < rows; ++r, left += width, right += width) {
        Vec other[kVectors];
        for (unsigned y = 0; y < kVectors; ++y) other[y] = simd::load(right + y * kWidth);
        for (unsigned x = 0; x < kLines; ++x) {
          const Vec own = simd::splat(left[x]);
          for (unsigned y = 0; y < kVectors; ++y) sum[x][y] = sum[x][y] + own * other[y];
        }
      }
      for (unsigned x = 0; x < kLines; ++x) {
        double* line = gram + (i + x) * width + j;
        for (unsigned y = 0; y < kVectors; ++y) {
          simd::store(line + y * kWidth, simd::load(line + y * kWidth) + sum[x][y]);
        }
      }
    }
  }
}

// Eight running sums hide the latency of the additions and map to vector registers.
template <class T>
void dot_rows(const T* a, int64_t rows, int64_t cols, int64_t stride, const double* x,
              double* out) {
  for (int64_t r = 0; r < rows; ++r, a += stride) {
    double sum[8] = {};
    int64_t c = 0;
    for (; c + 8 <= cols; c += 8) {
      for (int k = 0; k < 8; ++k) sum[k] += static_cast<double>(a[c + k]) * x[c + k];
    }
    double rest = 0.0;
    for (; c < cols; ++c) rest += static_cast<double>(a[c]) * x[c];
    out[r] =
        ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7])) + rest;
  }
}

// Four rows a time: a quarter of the traffic on `sum`. Processors do not see that four short rows
// are one stream, so what comes next is fetched ahead of time: long rows are streams of their own,
// and very short ones share their cache lines.
template <class T>
void add_rows(const T* __restrict a, int64_t rows, int64_t cols, int64_t stride,
              const double* __restrict g, double* __restrict sum) {
  constexpr int64_t kLine = 64 / sizeof(T), kAhead = 4096 / sizeof(T);
  const int64_t fetched = 2 * kLine < cols && stride <= kAhead ? 4 * stride : 0;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* row0 = a + r * stride;
    const T *row1 = row0 + stride, *row2 = row1 + stride, *row3 = row2 + stride;
    const double g0 = g[r], g1 = g[r + 1], g2 = g[r + 2], g3 = g[r + 3];
    for (int64_t c = 0; c < fetched; c += kLine) __builtin_prefetch(row0 + kAhead + c, 0, 2);
    for (int64_t c = 0; c < cols; ++c) {
      sum[c] += (g0 * static_cast<double>(row0[c]) + g1 * static_cast<double>(row1[c])) +
                (g2 * static_cast<double>(row2[c]) + g3 * static_cast<double>(row3[c]));
    }
  }
  for (; r < rows; ++r) {
    const T* row = a + r * stride;
    for (int64_t c = 0; c < cols; ++c) sum[c] += g[r] * static_cast<double>(row[c]);
  }
}

template <class T>
void deviations(const T* __restrict x, int64_t rows, int64_t cols, int64_t stride,
                const double* __restrict mean, const double* __restrict weight, int64_t width,
                double* __restrict off, double* __restrict weighted) {
  for (int64_t r = 0; r < rows; ++r, x += stride, off += width, weighted += width) {
    const double w = weight[r];
    for (int64_t c = 0; c < cols; ++c) {
      const double d = static_cast<double>(x[c]) - mean[c];
      off[c] = d;
      weighted[c] = w * d;
    }
  }
}

// The counts of kRows rows from `own` on: a row that was loaded is compared with all of them.
template <int kRows>
inline void net_counts_of(const double* x, int64_t rows, int64_t width, const double* own,
                          int64_t* net) {
  simd::Vec value[kRows];
  simd::NetCount count[kRows];
  for (int k = 0; k < kRows; ++k) value[k] = simd::load(own + k * width);
  for (int64_t j = 0; j < rows; ++j) {
    const simd::Vec other = simd::load(x + j * width);
    for (int k = 0; k < kRows; ++k) count[k].add(value[k], other);
  }
  for (int k = 0; k < kRows; ++k) count[k].store(net + k * width);
}

void net_counts(const double* x, int64_t rows, int64_t width, int64_t* net) {
  for (int64_t c = 0; c < width; c += simd::Vec::kWidth) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
      net_counts_of<4>(x + c, rows, width, x + i * width + c, net + i * width + c);
    }
    for (; i < rows; ++i) {
      net_counts_of<1>(x + c, rows, width, x + i * width + c, net + i * width + c);
    }
  }
}

constexpr SimdLoops kLoops = {RANKSVM_SIMD_NAME,
                              run_count_sweep,
                              run_sum_sweep<SumRecord>,
                              run_sum_sweep<SplitRecord>,
                              run_sum_sweep<NetRecord>,
                              run_sum_sweep<RoleRecord>,
                              leaf_masks,
                              leaf_sums,
                              leaf_split<1>,
                              leaf_split<2>,
                              add_gram,
                              dot_rows<double>,
                              dot_rows<float>,
                              add_rows<double>,
                              add_rows<float>,
                              deviations<double>,
                              deviations<float>,
                              net_counts,
                              kTileLoops};

}  // namespace
}  // namespace ranksvm
