// The inner loops for processors with AVX2.
#include <immintrin.h>

#include <cstdint>

#include "ranksvm/simd.hpp"
#include "simd_vector_avx2.hpp"

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

struct NetCount {
  __m256i lane = _mm256_setzero_si256();
  void add(Vec own, Vec other) {  // a comparison gives minus one
    const __m256d less = _mm256_cmp_pd(other.v, own.v, _CMP_LT_OQ);
    const __m256d more = _mm256_cmp_pd(other.v, own.v, _CMP_GT_OQ);
    lane = _mm256_sub_epi64(lane, _mm256_castpd_si256(less));
    lane = _mm256_add_epi64(lane, _mm256_castpd_si256(more));
  }
  void store(int64_t* to) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), lane); }
};

constexpr unsigned kSplitLanes = 16;

template <unsigned kPayloads>
struct MaskedSums {
  __m256d sum[kPayloads][4];
  MaskedSums() {
    for (auto& row : sum) {
      for (__m256d& lanes : row) lanes = _mm256_setzero_pd();
    }
  }
  void add(uint64_t bits, const double* const* value, unsigned j) {
    const __m256i word = _mm256_set1_epi64x(static_cast<int64_t>(bits));
    for (int b = 0; b < 4; ++b) {
      const int64_t one = int64_t{1} << (4 * b);
      const __m256i bit = _mm256_setr_epi64x(one, one << 1, one << 2, one << 3);
      const __m256d on = _mm256_castsi256_pd(_mm256_cmpeq_epi64(_mm256_and_si256(word, bit), bit));
      for (unsigned k = 0; k < kPayloads; ++k) {
        sum[k][b] = _mm256_add_pd(sum[k][b], _mm256_and_pd(_mm256_set1_pd(value[k][j]), on));
      }
    }
  }
  void store(double* const* to, unsigned at) const {
    for (unsigned k = 0; k < kPayloads; ++k) {
      for (int b = 0; b < 4; ++b) _mm256_storeu_pd(to[k] + at + 4 * b, sum[k][b]);
    }
  }
};

uint64_t below_margin_bits(const double* score, unsigned first, unsigned last, double s,
                           double margin) {
  const __m256d own = _mm256_set1_pd(s), m = _mm256_set1_pd(margin);
  uint64_t bits = 0;
  for (unsigned l = first; l < last; l += 4) {
    const __m256d difference = _mm256_sub_pd(_mm256_loadu_pd(score + l), own);
    const int four = _mm256_movemask_pd(_mm256_cmp_pd(difference, m, _CMP_LT_OQ));
    bits |= static_cast<uint64_t>(four) << l;
  }
  return bits;
}

// Sixteen lanes at a time, whose sums stay in registers.
void add_masked(const double* value, const uint64_t* mask, unsigned stride, unsigned n,
                unsigned lanes, double* sum) {
  __m256i bit[4];
  for (int b = 0; b < 4; ++b) {
    const int64_t one = int64_t{1} << (4 * b);
    bit[b] = _mm256_setr_epi64x(one, one << 1, one << 2, one << 3);
  }
  for (unsigned shift = 0; shift < lanes; shift += 16) {
    __m256d acc[4];
    for (int b = 0; b < 4; ++b) acc[b] = _mm256_setzero_pd();
    for (unsigned j = 0; j < n; ++j) {
      const __m256d v = _mm256_set1_pd(value[j]);
      const __m256i bits = _mm256_set1_epi64x(static_cast<int64_t>(mask[j * stride] >> shift));
      for (int b = 0; b < 4; ++b) {
        const __m256i on = _mm256_cmpeq_epi64(_mm256_and_si256(bits, bit[b]), bit[b]);
        acc[b] = _mm256_add_pd(acc[b], _mm256_and_pd(v, _mm256_castsi256_pd(on)));
      }
    }
    alignas(32) double out[16];
    for (int b = 0; b < 4; ++b) _mm256_store_pd(out + 4 * b, acc[b]);
    for (unsigned l = 0; l < 16 && shift + l < lanes; ++l) sum[shift + l] = out[l];
  }
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm

#define RANKSVM_SIMD_NAME "avx2"
#include "simd_impl.hpp"

namespace ranksvm {
extern const SimdLoops kSimdAvx2;
const SimdLoops kSimdAvx2 = kLoops;
}  // namespace ranksvm
