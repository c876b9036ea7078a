// Kernels for processors with AVX2.
#include <immintrin.h>

#include <cstdint>

#include "ranksvm/kernels.hpp"

namespace ranksvm {
namespace {
namespace simd {

// Row d of a step function read at kSteps + kLanes - 1 - d: ones in lanes 0..d, zeros after.
alignas(64) constexpr int64_t kStep64[2 * kLanes] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                                     -1, -1, -1, -1, -1, 0,  0,  0,  0,  0,  0,
                                                     0,  0,  0,  0,  0,  0,  0,  0,  0,  0};
alignas(64) constexpr int32_t kStep32[2 * kLanes] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                                     -1, -1, -1, -1, -1, 0,  0,  0,  0,  0,  0,
                                                     0,  0,  0,  0,  0,  0,  0,  0,  0,  0};

struct SumRow {
  __m256d lane[4];
  explicit SumRow(const double* from) {
    for (int k = 0; k < 4; ++k) lane[k] = _mm256_loadu_pd(from + 4 * k);
  }
  void add(uint8_t digit, double value) {
    const __m256d v = _mm256_set1_pd(value);
    const double* step = reinterpret_cast<const double*>(kStep64 + kLanes - 1 - digit);
    for (int k = 0; k < 4; ++k) {
      lane[k] = _mm256_add_pd(lane[k], _mm256_and_pd(v, _mm256_loadu_pd(step + 4 * k)));
    }
  }
  void store(double* to) const {
    for (int k = 0; k < 4; ++k) _mm256_storeu_pd(to + 4 * k, lane[k]);
  }
};

struct CountRow {
  __m256i lane[2];
  explicit CountRow(const uint32_t* from) {
    for (int k = 0; k < 2; ++k) {
      lane[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 8 * k));
    }
  }
  void add(uint8_t digit) {
    const int32_t* step = kStep32 + kLanes - 1 - digit;
    for (int k = 0; k < 2; ++k) {  // minus minus one
      lane[k] = _mm256_sub_epi32(
          lane[k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(step + 8 * k)));
    }
  }
  void store(uint32_t* to) const {
    for (int k = 0; k < 2; ++k)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8 * k), lane[k]);
  }
};

void violated_bits(const double* score, unsigned n, double s, double margin, uint64_t* above,
                   uint64_t* below) {
  const __m256d own = _mm256_set1_pd(s), m = _mm256_set1_pd(margin);
  uint64_t a = 0, b = 0;
  for (unsigned l = 0; l < n; l += 4) {
    const __m256d other = _mm256_loadu_pd(score + l);
    const __m256d up = _mm256_cmp_pd(_mm256_sub_pd(other, own), m, _CMP_LT_OQ);
    const __m256d down = _mm256_cmp_pd(_mm256_sub_pd(own, other), m, _CMP_LT_OQ);
    a |= static_cast<uint64_t>(_mm256_movemask_pd(up)) << l;
    b |= static_cast<uint64_t>(_mm256_movemask_pd(down)) << l;
  }
  *above = a;
  *below = b;
}

// Lanes l = 4 * kBlock .. 4 * (kBlock + kBlocks) - 1.
template <unsigned kBlocks>
void leaf_lanes(const double* value, const uint64_t* mask, unsigned n, unsigned shift,
                double* sum) {
  __m256d acc[kBlocks];
  for (unsigned b = 0; b < kBlocks; ++b) acc[b] = _mm256_setzero_pd();
  __m256i bit[kBlocks];
  for (unsigned b = 0; b < kBlocks; ++b) {
    const int64_t one = int64_t{1} << (4 * b);
    bit[b] = _mm256_setr_epi64x(one, one << 1, one << 2, one << 3);
  }
  for (unsigned j = 0; j < n; ++j) {
    const __m256d v = _mm256_set1_pd(value[j]);
    const __m256i bits = _mm256_set1_epi64x(static_cast<int64_t>(mask[j] >> shift));
    for (unsigned b = 0; b < kBlocks; ++b) {
      const __m256i on = _mm256_cmpeq_epi64(_mm256_and_si256(bits, bit[b]), bit[b]);
      acc[b] = _mm256_add_pd(acc[b], _mm256_and_pd(v, _mm256_castsi256_pd(on)));
    }
  }
  for (unsigned b = 0; b < kBlocks; ++b) _mm256_storeu_pd(sum + shift + 4 * b, acc[b]);
}

void leaf_sums(const double* value, const uint64_t* mask, unsigned n, double* sum) {
  alignas(32) double padded[kLeaf + 16];
  for (unsigned shift = 0; shift < n; shift += 16) {
    leaf_lanes<4>(value, mask, n, shift, padded);
  }
  for (unsigned l = 0; l < n; ++l) sum[l] = padded[l];
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm

#define RANKSVM_KERNELS_NAME "avx2"
#include "kernels_impl.hpp"

namespace ranksvm {
extern const Kernels kKernelsAvx2;
const Kernels kKernelsAvx2 = kTable;
}  // namespace ranksvm
