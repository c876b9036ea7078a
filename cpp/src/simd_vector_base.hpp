// A vector of doubles for simd_math_impl.hpp and simd_tiles_impl.hpp: plain C++, without fused
// operations. The other instruction sets have the same functions; simd_vector_avx512.hpp says
// what they mean.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace ranksvm {
namespace {
namespace simd {

constexpr int kMicroRows = 4, kMicroVectors = 2;

struct Vec {
  static constexpr int kWidth = 2;
  static constexpr bool kHasSixteenths = false;
  double v[kWidth];
};

template <class Function>
inline Vec lanes(Function f) {
  return {{f(0), f(1)}};
}
inline double with_bits(double a, uint64_t (*change)(uint64_t, uint64_t), double b) {
  return std::bit_cast<double>(change(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b)));
}

inline Vec splat(double x) { return {{x, x}}; }
inline Vec load(const double* from) { return {{from[0], from[1]}}; }
inline Vec load(const float* from) { return {{from[0], from[1]}}; }
inline void prefetch(const void*) {}
inline void store(double* to, Vec a) {
  to[0] = a.v[0];
  to[1] = a.v[1];
}
inline void store(float* to, Vec a) {
  to[0] = static_cast<float>(a.v[0]);
  to[1] = static_cast<float>(a.v[1]);
}
inline Vec operator+(Vec a, Vec b) { return {{a.v[0] + b.v[0], a.v[1] + b.v[1]}}; }
inline Vec operator-(Vec a, Vec b) { return {{a.v[0] - b.v[0], a.v[1] - b.v[1]}}; }
inline Vec operator*(Vec a, Vec b) { return {{a.v[0] * b.v[0], a.v[1] * b.v[1]}}; }
inline Vec operator/(Vec a, Vec b) { return {{a.v[0] / b.v[0], a.v[1] / b.v[1]}}; }
inline double fma(double a, double b, double c) { return a * b + c; }
inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
inline Vec max(Vec a, Vec b) {
  return lanes([&](int l) { return a.v[l] > b.v[l] ? a.v[l] : b.v[l]; });
}
inline Vec min(Vec a, Vec b) {
  return lanes([&](int l) { return a.v[l] < b.v[l] ? a.v[l] : b.v[l]; });
}
inline Vec abs(Vec a) { return {{std::fabs(a.v[0]), std::fabs(a.v[1])}}; }
inline Vec minus(Vec a, Vec b) { return a - b; }
inline Vec copy_sign(Vec a, Vec b) {
  return lanes([&](int l) { return std::copysign(a.v[l], b.v[l]); });
}
inline Vec zero_below(Vec value, Vec x, double limit) {
  return lanes([&](int l) { return x.v[l] < limit ? 0.0 : value.v[l]; });
}
inline bool all_within(Vec x, double limit) {
  return std::fabs(x.v[0]) <= limit && std::fabs(x.v[1]) <= limit;
}
inline Vec times_power(Vec a, Vec t) {
  const auto add = [](uint64_t x, uint64_t n) { return x + (n << 52); };
  return lanes([&](int l) { return with_bits(a.v[l], add, t.v[l]); });
}
inline Vec times_sign(Vec a, Vec t) {
  const auto flip = [](uint64_t x, uint64_t n) { return x ^ (n << 63); };
  return lanes([&](int l) { return with_bits(a.v[l], flip, t.v[l]); });
}
inline double sum(Vec a) { return a.v[0] + a.v[1]; }
inline void transpose(Vec (&a)[2]) {
  const Vec first{{a[0].v[0], a[1].v[0]}}, second{{a[0].v[1], a[1].v[1]}};
  a[0] = first;
  a[1] = second;
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm
