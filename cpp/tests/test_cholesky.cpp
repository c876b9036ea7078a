#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "check.hpp"
#include "ranksvm/cholesky.hpp"

using namespace ranksvm;

namespace {

// B B' + I for a random B, by rows.
std::vector<double> positive(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> b(n * n), a(n * n, 0.0);
  for (double& x : b) x = normal(random);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t k = 0; k < n; ++k) a[i * n + j] += b[i * n + k] * b[j * n + k];
    }
    a[i * n + i] += 1.0;
  }
  return a;
}

}  // namespace

TEST(cholesky_factors_and_solves) {
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 33, 64, 101}) {
    const std::vector<double> a = positive(n, static_cast<unsigned>(n));
    std::vector<double> factor = a;
    CHECK(cholesky(factor.data(), n));
    double worst = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double sum = 0.0;
        for (int64_t k = 0; k <= j; ++k) sum += factor[i * n + k] * factor[j * n + k];
        worst = std::max(worst, std::fabs(sum - a[i * n + j]) / static_cast<double>(n));
      }
    }
    CHECK(worst < 1e-13);
    std::vector<double> x(n), b(n, 0.0);
    for (int64_t i = 0; i < n; ++i) x[i] = std::sin(static_cast<double>(i));
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) b[i] += a[i * n + j] * x[j];
    }
    solve_cholesky(factor.data(), n, b.data());
    for (int64_t i = 0; i < n; ++i) CHECK(std::fabs(b[i] - x[i]) < 1e-9);
  }
}

TEST(cholesky_refuses_what_is_not_positive_definite) {
  std::vector<double> a = {1.0, 2.0, 2.0, 1.0};
  CHECK(!cholesky(a.data(), 2));
  std::vector<double> zero = {0.0};
  CHECK(!cholesky(zero.data(), 1));
  std::vector<double> wrong = {std::nan("")};
  CHECK(!cholesky(wrong.data(), 1));
  CHECK(cholesky(nullptr, 0));
}
