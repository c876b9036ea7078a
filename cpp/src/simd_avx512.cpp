// The inner loops for processors with AVX-512 (F, BW, DQ, VL).
#include <immintrin.h>

#include <cstdint>

#include "ranksvm/simd.hpp"
#include "simd_vector_avx512.hpp"

namespace ranksvm {
namespace {
namespace simd {

struct SumRow {
  __m512d low, high;
  explicit SumRow(const double* from)
      : low(_mm512_loadu_pd(from)), high(_mm512_loadu_pd(from + 8)) {}
  void add(uint8_t digit, double value) {
    const __m512d v = _mm512_set1_pd(value);
    const unsigned lanes = (2U << digit) - 1;
    low = _mm512_mask_add_pd(low, static_cast<__mmask8>(lanes), low, v);
    high = _mm512_mask_add_pd(high, static_cast<__mmask8>(lanes >> 8), high, v);
  }
  void store(double* to) const {
    _mm512_storeu_pd(to, low);
    _mm512_storeu_pd(to + 8, high);
  }
};

struct CountRow {
  __m512i lane;
  explicit CountRow(const uint32_t* from) : lane(_mm512_loadu_si512(from)) {}
  void add(uint8_t digit) {
    lane = _mm512_mask_add_epi32(lane, static_cast<__mmask16>((2U << digit) - 1), lane,
                                 _mm512_set1_epi32(1));
  }
  void store(uint32_t* to) const { _mm512_storeu_si512(to, lane); }
};

struct NetCount {
  __m512i lane = _mm512_setzero_si512();
  void add(Vec own, Vec other) {
    const __m512i one = _mm512_set1_epi64(1);
    lane = _mm512_mask_add_epi64(lane, _mm512_cmp_pd_mask(other.v, own.v, _CMP_LT_OQ), lane, one);
    lane = _mm512_mask_sub_epi64(lane, _mm512_cmp_pd_mask(other.v, own.v, _CMP_GT_OQ), lane, one);
  }
  void store(int64_t* to) const { _mm512_storeu_si512(to, lane); }
};

// So many that additions need not wait for each other.
constexpr unsigned kSplitLanes = 32, kSplitVectors = kSplitLanes / 8;

template <unsigned kPayloads>
struct MaskedSums {
  __m512d sum[kPayloads][kSplitVectors];
  MaskedSums() {
    for (auto& row : sum) {
      for (__m512d& lanes : row) lanes = _mm512_setzero_pd();
    }
  }
  void add(uint64_t bits, const double* const* value, unsigned j) {
    for (unsigned k = 0; k < kPayloads; ++k) {
      const __m512d v = _mm512_set1_pd(value[k][j]);
      for (unsigned b = 0; b < kSplitVectors; ++b) {
        const auto on = static_cast<__mmask8>(bits >> (8 * b));
        sum[k][b] = _mm512_mask_add_pd(sum[k][b], on, sum[k][b], v);
      }
    }
  }
  void store(double* const* to, unsigned at) const {
    for (unsigned k = 0; k < kPayloads; ++k) {
      for (unsigned b = 0; b < kSplitVectors; ++b) {
        _mm512_storeu_pd(to[k] + at + 8 * b, sum[k][b]);
      }
    }
  }
};

uint64_t below_margin_bits(const double* score, unsigned first, unsigned last, double s,
                           double margin) {
  const __m512d own = _mm512_set1_pd(s), m = _mm512_set1_pd(margin);
  uint64_t bits = 0;
  for (unsigned l = first; l < last; l += 8) {
    const __m512d difference = _mm512_sub_pd(_mm512_loadu_pd(score + l), own);
    bits |= static_cast<uint64_t>(_mm512_cmp_pd_mask(difference, m, _CMP_LT_OQ)) << l;
  }
  return bits;
}

template <unsigned kBlocks>
void add_blocks(const double* value, const uint64_t* mask, unsigned stride, unsigned n,
                unsigned lanes, double* sum) {
  __m512d acc[kBlocks];
  for (unsigned b = 0; b < kBlocks; ++b) acc[b] = _mm512_setzero_pd();
  for (unsigned j = 0; j < n; ++j) {
    const __m512d v = _mm512_set1_pd(value[j]);
    const uint64_t bits = mask[j * stride];
    for (unsigned b = 0; b < kBlocks; ++b) {
      acc[b] = _mm512_mask_add_pd(acc[b], static_cast<__mmask8>(bits >> (8 * b)), acc[b], v);
    }
  }
  for (unsigned b = 0; b + 1 < kBlocks; ++b) _mm512_storeu_pd(sum + 8 * b, acc[b]);
  const unsigned rest = lanes - 8 * (kBlocks - 1);
  _mm512_mask_storeu_pd(sum + 8 * (kBlocks - 1), static_cast<__mmask8>((1U << rest) - 1),
                        acc[kBlocks - 1]);
}

void add_masked(const double* value, const uint64_t* mask, unsigned stride, unsigned n,
                unsigned lanes, double* sum) {
  switch ((lanes + 7) / 8) {
    case 1:
      return add_blocks<1>(value, mask, stride, n, lanes, sum);
    case 2:
      return add_blocks<2>(value, mask, stride, n, lanes, sum);
    case 3:
      return add_blocks<3>(value, mask, stride, n, lanes, sum);
    case 4:
      return add_blocks<4>(value, mask, stride, n, lanes, sum);
    case 5:
      return add_blocks<5>(value, mask, stride, n, lanes, sum);
    case 6:
      return add_blocks<6>(value, mask, stride, n, lanes, sum);
    case 7:
      return add_blocks<7>(value, mask, stride, n, lanes, sum);
    case 8:
      return add_blocks<8>(value, mask, stride, n, lanes, sum);
    default:
      return;
  }
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm

#define RANKSVM_SIMD_NAME "avx512"
#include "simd_impl.hpp"

namespace ranksvm {
extern const SimdLoops kSimdAvx512;
const SimdLoops kSimdAvx512 = kLoops;
}  // namespace ranksvm
