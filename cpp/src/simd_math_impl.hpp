// exp, tanh and cos of vectors, to about two units in the last place.
//
// The argument is cut into a whole number n of steps and a rest r. Adding 1.5 * 2^52 rounds to a
// whole number, and leaves it in the lowest bits of the sum, where times_power and times_sign take
// it from. The steps are stored in parts short enough for n * part to be exact, so r is good with
// and without fused operations. The polynomials interpolate at Chebyshev points.
#pragma once

#include <cmath>

namespace ranksvm {
namespace {
namespace simd {

constexpr double kRounder = 0x1.8p52;

template <int kTerms>
inline Vec polynomial(const double (&coefficient)[kTerms], Vec x) {
  Vec p = splat(coefficient[kTerms - 1]);
  for (int k = kTerms - 2; k >= 0; --k) p = fma(p, x, splat(coefficient[k]));
  return p;
}

// (e^r - 1 - r) / r^2 for |r| <= log(2) / 2.
constexpr double kExp[] = {0x1.0000000000000p-1,  0x1.5555555555556p-3,  0x1.5555555553d63p-5,
                           0x1.11111111109b3p-7,  0x1.6c16c1788bd90p-10, 0x1.a01a01a7c41d5p-13,
                           0x1.a019b90d2ae7ap-16, 0x1.71de0dae63bb3p-19, 0x1.289185613a3d6p-22,
                           0x1.af38a9b0ec855p-26};

// x = n log(2) + r; n is in the lowest bits of t.
struct ExpParts {
  Vec t, r;
};
inline ExpParts exp_parts(Vec x) {
  const Vec t = fma(x, splat(0x1.71547652b82fep0), splat(kRounder));
  const Vec n = t - splat(kRounder);
  const Vec r = fma(n, splat(-0x1.62e42ff000000p-1), x);
  return {t, fma(n, splat(0x1.718432a1b0e26p-35), r)};
}

// The same for |r| <= log(2) / 32.
constexpr double kExpOfLittle[] = {0x1.0000000000000p-1, 0x1.55555554dd44dp-3, 0x1.55555555194d2p-5,
                                   0x1.11120af701debp-7, 0x1.6c17bb51f236dp-10};

// e^x for x <= 0; 0 for x < -708, before numbers get subnormal. Steps of log(2) / 16 leave less to
// the polynomial.
template <class V>
inline V exp_negative(V x) {
  constexpr double kLowest = -708.0;
  if constexpr (V::kHasSixteenths) {
    const V t = fma(x, splat(0x1.71547652b82fep4), splat(kRounder));
    const V n = t - splat(kRounder);
    const V r = fma(n, splat(0x1.718432a1b0e26p-39), fma(n, splat(-0x1.62e42ff000000p-5), x));
    const V power = power_of_sixteenths(t);
    const V p = fma(polynomial(kExpOfLittle, r) * r, r, r);
    return zero_below(fma(power, p, power), x, kLowest);
  } else {
    const auto [t, r] = exp_parts(x);
    const V one = splat(1.0);
    const V p = fma(fma(polynomial(kExp, r), r, one), r, one);
    return zero_below(times_power(p, t), x, kLowest);
  }
}

// With m = e^(2|x|) - 1: tanh |x| = m / (m + 2). For small x that is exact in the relative sense.
inline Vec tanh(Vec x) {
  const Vec one = splat(1.0), two = splat(2.0);
  const auto [t, r] = exp_parts(two * min(splat(20.0), abs(x)));
  const Vec p = fma(polynomial(kExp, r) * r, r, r);
  const Vec power = times_power(one, t);
  const Vec m = fma(power, p, power - one);
  return copy_sign(m / (m + two), x);
}

// (sin(sqrt(u)) / sqrt(u) - 1) / u for sqrt(u) <= pi / 2.
constexpr double kSin[] = {-0x1.5555555555555p-3,  0x1.1111111111107p-7,   -0x1.a01a01a018aaap-13,
                           0x1.71de3a54564dfp-19,  -0x1.ae6455a1c0795p-26, 0x1.612401540ed0fp-33,
                           -0x1.ae51366b753a9p-41, 0x1.89a43bea5b135p-49};

// x = (n + 1/2) pi + r, so cos(x) = -(-1)^n sin(r). Arguments of a size where n times a part is no
// longer exact are left to the standard library.
inline Vec cos(Vec x) {
  constexpr double kLargest = 1e5;
  if (!all_within(x, kLargest)) {
    double lane[Vec::kWidth];
    store(lane, x);
    for (double& l : lane) l = std::cos(l);
    return load(lane);
  }
  const Vec t = fma(x, splat(0x1.45f306dc9c883p-2), splat(-0.5)) + splat(kRounder);
  const Vec half_steps = fma(t - splat(kRounder), splat(2.0), splat(1.0));
  Vec r = fma(half_steps, splat(-0x1.921fb54400000p0), x);
  r = fma(half_steps, splat(-0x1.0b4611a600000p-34), r);
  r = fma(half_steps, splat(-0x1.3198a2e037073p-69), r);
  const Vec u = r * r;
  const Vec sine = fma(polynomial(kSin, u) * u, r, r);
  return times_sign(splat(0.0) - sine, t);
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm
