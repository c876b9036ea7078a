// Kernels for processors with AVX-512 (F, BW, DQ, VL).
#include <immintrin.h>

#include <cstdint>

#include "ranksvm/kernels.hpp"

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

void violated_bits(const double* score, unsigned n, double s, double margin, uint64_t* above,
                   uint64_t* below) {
  const __m512d own = _mm512_set1_pd(s), m = _mm512_set1_pd(margin);
  uint64_t a = 0, b = 0;
  for (unsigned l = 0; l < n; l += 8) {
    const __m512d other = _mm512_loadu_pd(score + l);
    a |= static_cast<uint64_t>(_mm512_cmp_pd_mask(_mm512_sub_pd(other, own), m, _CMP_LT_OQ)) << l;
    b |= static_cast<uint64_t>(_mm512_cmp_pd_mask(_mm512_sub_pd(own, other), m, _CMP_LT_OQ)) << l;
  }
  *above = a;
  *below = b;
}

template <unsigned kBlocks>
void leaf_lanes(const double* value, const uint64_t* mask, unsigned n, double* sum) {
  __m512d acc[kBlocks];
  for (unsigned b = 0; b < kBlocks; ++b) acc[b] = _mm512_setzero_pd();
  for (unsigned j = 0; j < n; ++j) {
    const __m512d v = _mm512_set1_pd(value[j]);
    const uint64_t bits = mask[j];
    for (unsigned b = 0; b < kBlocks; ++b) {
      acc[b] = _mm512_mask_add_pd(acc[b], static_cast<__mmask8>(bits >> (8 * b)), acc[b], v);
    }
  }
  for (unsigned b = 0; b + 1 < kBlocks; ++b) _mm512_storeu_pd(sum + 8 * b, acc[b]);
  const unsigned rest = n - 8 * (kBlocks - 1);
  _mm512_mask_storeu_pd(sum + 8 * (kBlocks - 1), static_cast<__mmask8>((1U << rest) - 1),
                        acc[kBlocks - 1]);
}

void leaf_sums(const double* value, const uint64_t* mask, unsigned n, double* sum) {
  switch ((n + 7) / 8) {
    case 1:
      return leaf_lanes<1>(value, mask, n, sum);
    case 2:
      return leaf_lanes<2>(value, mask, n, sum);
    case 3:
      return leaf_lanes<3>(value, mask, n, sum);
    case 4:
      return leaf_lanes<4>(value, mask, n, sum);
    case 5:
      return leaf_lanes<5>(value, mask, n, sum);
    case 6:
      return leaf_lanes<6>(value, mask, n, sum);
    case 7:
      return leaf_lanes<7>(value, mask, n, sum);
    case 8:
      return leaf_lanes<8>(value, mask, n, sum);
    default:
      return;
  }
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm

#define RANKSVM_KERNELS_NAME "avx512"
#include "kernels_impl.hpp"

namespace ranksvm {
extern const Kernels kKernelsAvx512;
const Kernels kKernelsAvx512 = kTable;
}  // namespace ranksvm
