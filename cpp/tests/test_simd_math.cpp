// exp, tanh and cos of kernel functions, against long double over their whole range, on every
// instruction set that this machine has.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "ranksvm/kernel_matrix.hpp"

namespace {

using namespace ranksvm;  // NOLINT: the whole file is about this namespace
using Vector = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<const SimdLoops*> all_loops() {
  std::vector<const SimdLoops*> all;
  for (const char* name : {"base", "avx2", "avx512"}) {
    if (const SimdLoops* loops = simd_loops_named(name)) all.push_back(loops);
  }
  return all;
}

// The error in units in the last place of the true value.
double in_last_places(double got, long double expected) {
  const auto rounded = static_cast<double>(expected);
  if (got == rounded) return 0.0;
  const int exponent = std::max(std::numeric_limits<double>::min_exponent, std::ilogb(rounded));
  return static_cast<double>(std::abs(got - expected) / std::ldexp(1.0L, exponent - 52));
}

// One-dimensional kernels show the function itself: out[i] = f(x_i), when z = 1.
Vector values_of(const KernelFunction& f, const Vector& x, const SimdLoops& loops) {
  const Vector one{1.0};
  const KernelRows a(Strided<double>{x.data(), static_cast<int64_t>(x.size()), 1, 1, 1}, {},
                     nullptr, loops);
  const KernelRows b(Strided<double>{one.data(), 1, 1, 1, 1}, {}, nullptr, loops);
  Vector out(x.size());
  kernel_block(f, a, {0, a.rows()}, b, {0, 1}, out.data(), 1, Context(1));
  return out;
}

void check_function(const KernelFunction& f, const Vector& x, double most,
                    const std::function<long double(long double)>& expected) {
  for (const SimdLoops* loops : all_loops()) {
    const Vector got = values_of(f, x, *loops);
    std::size_t i = 0;  // the first that is wrong
    while (i < x.size() && in_last_places(got[i], expected(x[i])) <= most) ++i;
    if (!CHECK(i == x.size())) {
      std::fprintf(stderr, "    %s: %.17g at %.17g\n", loops->name, got[i], x[i]);
    }
  }
}

Vector spread(double low, double high, int n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  Vector x(n);
  for (double& v : x) v = uniform(random);
  return x;
}

}  // namespace

TEST(kernel_exp_is_good_to_the_last_places) {
  // Of x = 1 + distance, where z = 1, so that the distance is exact.
  const KernelFunction laplacian = kernel_function("laplacian", 1.0, 0.0, 1, 1.0);
  const auto exp = [](long double x) { return std::exp(-std::abs(x - 1)); };
  for (const double high : {2.0, 40.0, 700.0}) {
    check_function(laplacian, spread(1.0, high, 20000, 1), 1.5, exp);
  }
  check_function(laplacian, {1.0, 708.9, 709.0}, 1.5, exp);
  // What is nearly too small for a normal number is zero.
  const Vector tiny = spread(709.01, 800.0, 1000, 2);
  const Vector zero{1e4, 1e300, -1e300, kInfinity, -kInfinity};
  for (const SimdLoops* loops : all_loops()) {
    for (const double value : values_of(laplacian, tiny, *loops)) CHECK_EQ(value, 0.0);
    for (const double value : values_of(laplacian, zero, *loops)) CHECK_EQ(value, 0.0);
    CHECK(std::isnan(values_of(laplacian, {std::nan("")}, *loops)[0]));
  }
}

TEST(kernel_tanh_is_good_to_the_last_places) {
  const KernelFunction sigmoid = kernel_function("sigmoid", 1.0, 0.0, 1, 1.0);
  const auto tanh = [](long double x) { return std::tanh(x); };
  for (const double high : {1e-300, 1e-8, 0.1, 1.0, 25.0, 1e9}) {
    check_function(sigmoid, spread(-high, high, 20000, 3), 3.0, tanh);
  }
  check_function(sigmoid, {0.0, -0.0, 20.0, -20.0, 1e308, kInfinity, -kInfinity}, 3.0, tanh);
  for (const SimdLoops* loops : all_loops()) {
    CHECK(std::isnan(values_of(sigmoid, {std::nan("")}, *loops)[0]));
  }
}

TEST(kernel_cos_is_good_to_the_last_places) {
  const KernelFunction cosine = kernel_function("cosine", 1.0, 0.0, 1, 1.0);
  const auto cos = [](long double x) { return std::cos(x); };
  for (const double high : {1e-3, 1.6, 10.0, 1e3, 1e5, 1e6, 1e15, 1e300}) {
    check_function(cosine, spread(-high, high, 20000, 4), 2.5, cos);
  }
  Vector zeros;  // close to the zeros, where all of the result is a remainder
  for (int k = -60000; k < 60000; k += 7) zeros.push_back((k + 0.5) * 3.14159265358979323846);
  check_function(cosine, zeros, 2.5, cos);
  for (const SimdLoops* loops : all_loops()) {
    CHECK(std::isnan(values_of(cosine, {kInfinity}, *loops)[0]));
    CHECK(std::isnan(values_of(cosine, {std::nan("")}, *loops)[0]));
  }
}

TEST(kernel_cosine_without_shift_is_unshifted) {
  const Vector x{0.5, -2.0, 7.0};
  const Vector got = values_of(kernel_function("cosine", 2.0, 0.0, 1, 3.0), x, simd_loops());
  for (int i = 0; i < 3; ++i) CHECK_NEAR(got[i], 3 * std::cos(2 * x[i]), 1e-15);
}
