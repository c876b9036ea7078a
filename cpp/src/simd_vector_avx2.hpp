// A vector of doubles for simd_math_impl.hpp and simd_tiles_impl.hpp: AVX2 with FMA. The other
// instruction sets have the same functions; simd_vector_avx512.hpp says what they mean.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace ranksvm {
namespace {
namespace simd {

constexpr int kMicroRows = 4, kMicroVectors = 3;  // 12 of 16 registers hold sums

struct Vec {
  static constexpr int kWidth = 4;
  static constexpr bool kHasSixteenths = false;
  __m256d v;
};

inline Vec splat(double x) { return {_mm256_set1_pd(x)}; }
inline Vec load(const double* from) { return {_mm256_loadu_pd(from)}; }
inline Vec load(const float* from) { return {_mm256_cvtps_pd(_mm_loadu_ps(from))}; }
inline void prefetch(const void* from) { _mm_prefetch(from, _MM_HINT_T0); }
inline void store(double* to, Vec a) { _mm256_storeu_pd(to, a.v); }
inline void store(float* to, Vec a) { _mm_storeu_ps(to, _mm256_cvtpd_ps(a.v)); }
inline Vec operator+(Vec a, Vec b) { return {_mm256_add_pd(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_pd(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_pd(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_pd(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline Vec max(Vec a, Vec b) { return {_mm256_max_pd(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_pd(a.v, b.v)}; }
inline Vec abs(Vec a) { return {_mm256_andnot_pd(_mm256_set1_pd(-0.0), a.v)}; }
inline Vec minus(Vec a, Vec b) { return {_mm256_sub_pd(a.v, b.v)}; }
inline Vec copy_sign(Vec a, Vec b) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  return {_mm256_or_pd(_mm256_andnot_pd(sign, a.v), _mm256_and_pd(sign, b.v))};
}
inline Vec zero_below(Vec value, Vec x, double limit) {
  return {_mm256_and_pd(value.v, _mm256_cmp_pd(x.v, _mm256_set1_pd(limit), _CMP_NLT_UQ))};
}
inline bool all_within(Vec x, double limit) {
  return _mm256_movemask_pd(_mm256_cmp_pd(abs(x).v, _mm256_set1_pd(limit), _CMP_LE_OQ)) == 0xf;
}
inline Vec times_power(Vec a, Vec t) {
  const __m256i n = _mm256_slli_epi64(_mm256_castpd_si256(t.v), 52);
  return {_mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a.v), n))};
}
inline Vec times_sign(Vec a, Vec t) {
  const __m256i n = _mm256_slli_epi64(_mm256_castpd_si256(t.v), 63);
  return {_mm256_castsi256_pd(_mm256_xor_si256(_mm256_castpd_si256(a.v), n))};
}
inline double sum(Vec a) {
  const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
  return _mm_cvtsd_f64(half) + _mm_cvtsd_f64(_mm_unpackhi_pd(half, half));
}
inline void transpose(Vec (&a)[4]) {
  const __m256d even0 = _mm256_unpacklo_pd(a[0].v, a[1].v);
  const __m256d even1 = _mm256_unpacklo_pd(a[2].v, a[3].v);
  const __m256d odd0 = _mm256_unpackhi_pd(a[0].v, a[1].v);
  const __m256d odd1 = _mm256_unpackhi_pd(a[2].v, a[3].v);
  a[0].v = _mm256_permute2f128_pd(even0, even1, 0x20);
  a[1].v = _mm256_permute2f128_pd(odd0, odd1, 0x20);
  a[2].v = _mm256_permute2f128_pd(even0, even1, 0x31);
  a[3].v = _mm256_permute2f128_pd(odd0, odd1, 0x31);
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm
