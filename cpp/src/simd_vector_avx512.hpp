// A vector of doubles for simd_math_impl.hpp and simd_tiles_impl.hpp: AVX-512.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace ranksvm {
namespace {
namespace simd {

constexpr int kMicroRows = 8, kMicroVectors = 3;  // 24 of 32 registers hold sums

// All lanes. GCC 12 takes some functions without a mask for uses of an uninitialised variable; with
// this one it makes the same instruction of them.
constexpr __mmask8 kAll = 0xff;

struct Vec {
  static constexpr int kWidth = 8;
  static constexpr bool kHasSixteenths = true;  // whether there is power_of_sixteenths
  __m512d v;
};

inline Vec splat(double x) { return {_mm512_set1_pd(x)}; }
inline Vec load(const double* from) { return {_mm512_loadu_pd(from)}; }
inline Vec load(const float* from) { return {_mm512_maskz_cvtps_pd(kAll, _mm256_loadu_ps(from))}; }
inline void prefetch(const void* from) { _mm_prefetch(from, _MM_HINT_T0); }
inline void store(double* to, Vec a) { _mm512_storeu_pd(to, a.v); }
inline void store(float* to, Vec a) { _mm256_storeu_ps(to, _mm512_maskz_cvtpd_ps(kAll, a.v)); }
inline Vec operator+(Vec a, Vec b) { return {_mm512_add_pd(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_pd(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_pd(a.v, b.v)}; }
// a * b + c, rounded once.
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
// The second argument when one of them is NaN.
inline Vec max(Vec a, Vec b) { return {_mm512_maskz_max_pd(kAll, a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_maskz_min_pd(kAll, a.v, b.v)}; }
inline Vec abs(Vec a) { return {_mm512_abs_pd(a.v)}; }
// a - b. A product with one keeps the busy adders free.
inline Vec minus(Vec a, Vec b) { return {_mm512_fmsub_pd(a.v, _mm512_set1_pd(1.0), b.v)}; }
// a with the sign of b.
inline Vec copy_sign(Vec a, Vec b) {
  const __m512d sign = _mm512_set1_pd(-0.0);
  return {_mm512_or_pd(_mm512_andnot_pd(sign, a.v), _mm512_and_pd(sign, b.v))};
}
// value, or 0 where x < limit.
inline Vec zero_below(Vec value, Vec x, double limit) {
  const __mmask8 keep = _mm512_cmp_pd_mask(x.v, _mm512_set1_pd(limit), _CMP_NLT_UQ);
  return {_mm512_maskz_mov_pd(keep, value.v)};
}
// Whether |x| <= limit in all lanes.
inline bool all_within(Vec x, double limit) {
  return _mm512_cmp_pd_mask(_mm512_abs_pd(x.v), _mm512_set1_pd(limit), _CMP_LE_OQ) == 0xff;
}
// With n the integer in the lowest bits of t: a * 2^n, and a * (-1)^n.
inline Vec times_power(Vec a, Vec t) {
  const __m512i n = _mm512_maskz_slli_epi64(kAll, _mm512_castpd_si512(t.v), 52);
  return {_mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(a.v), n))};
}
// 2^(n / 16), rounded, with n as above. From the bits of the numbers in the table those are taken
// away that the shifted n has below its exponent.
inline Vec power_of_sixteenths(Vec t) {
  alignas(64) static constexpr int64_t kTable[16] = {
      0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238,
      0x3fef06fe0a31b715, 0x3feedea64c123422, 0x3feebfdad5362a27, 0x3feeab07dd485429,
      0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
      0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da};
  const __m512i bits = _mm512_castpd_si512(t.v);
  const __m512i entry =
      _mm512_permutex2var_epi64(_mm512_load_si512(kTable), bits, _mm512_load_si512(kTable + 8));
  const __m512i n = _mm512_maskz_slli_epi64(kAll, bits, 48);
  return {_mm512_castsi512_pd(_mm512_add_epi64(entry, n))};
}
inline Vec times_sign(Vec a, Vec t) {
  const __m512i n = _mm512_maskz_slli_epi64(kAll, _mm512_castpd_si512(t.v), 63);
  return {_mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(a.v), n))};
}
// The lanes, added in a fixed order.
inline double sum(Vec a) {
  a = a + Vec{_mm512_maskz_shuffle_f64x2(kAll, a.v, a.v, 0x4e)};
  a = a + Vec{_mm512_maskz_shuffle_f64x2(kAll, a.v, a.v, 0xb1)};
  a = a + Vec{_mm512_maskz_permute_pd(kAll, a.v, 0x55)};
  return _mm512_cvtsd_f64(a.v);
}
// Rows become columns.
inline void transpose(Vec (&a)[8]) {
  __m512d even[4], odd[4];  // columns of even and odd number, of two rows each
  for (int r = 0; r < 4; ++r) {
    even[r] = _mm512_maskz_unpacklo_pd(kAll, a[2 * r].v, a[2 * r + 1].v);
    odd[r] = _mm512_maskz_unpackhi_pd(kAll, a[2 * r].v, a[2 * r + 1].v);
  }
  const auto pairs = [&a](const __m512d(&t)[4], int first) {
    const __m512d low0 = _mm512_maskz_shuffle_f64x2(kAll, t[0], t[1], 0x44);
    const __m512d low1 = _mm512_maskz_shuffle_f64x2(kAll, t[2], t[3], 0x44);
    const __m512d high0 = _mm512_maskz_shuffle_f64x2(kAll, t[0], t[1], 0xee);
    const __m512d high1 = _mm512_maskz_shuffle_f64x2(kAll, t[2], t[3], 0xee);
    a[first].v = _mm512_maskz_shuffle_f64x2(kAll, low0, low1, 0x88);
    a[first + 2].v = _mm512_maskz_shuffle_f64x2(kAll, low0, low1, 0xdd);
    a[first + 4].v = _mm512_maskz_shuffle_f64x2(kAll, high0, high1, 0x88);
    a[first + 6].v = _mm512_maskz_shuffle_f64x2(kAll, high0, high1, 0xdd);
  };
  pairs(even, 0);
  pairs(odd, 1);
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm
