#include "ranksvm/cholesky.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ranksvm/simd.hpp"

namespace ranksvm {

// Panels of four columns: the columns of a panel are computed one by one; then their products are
// taken from the rest of the matrix, row by row, four columns at a time.
bool cholesky(double* a, int64_t n) {
  constexpr int64_t kPanel = 4;
  const auto add_rows = simd_loops().add_rows_double;
  std::vector<double> across(kPanel * n);  // the panel, by columns
  for (int64_t begin = 0; begin < n; begin += kPanel) {
    const int64_t end = std::min(n, begin + kPanel);
    for (int64_t i = begin; i < n; ++i) {
      double* row = a + i * n;
      for (int64_t j = begin; j < std::min(end, i + 1); ++j) {
        const double* other = a + j * n;
        double rest = row[j];
        for (int64_t k = begin; k < j; ++k) rest -= row[k] * other[k];
        if (i == j) {
          if (!(rest > 0.0) || !std::isfinite(rest)) return false;
          row[j] = std::sqrt(rest);
        } else {
          row[j] = rest / other[j];
        }
        across[(j - begin) * n + i] = row[j];
      }
    }
    for (int64_t i = end; i < n; ++i) {
      double* row = a + i * n;
      double minus[kPanel];
      for (int64_t k = 0; k < end - begin; ++k) minus[k] = -row[begin + k];
      add_rows(across.data() + end, end - begin, i + 1 - end, n, minus, row + end);
    }
  }
  return true;
}

void solve_cholesky(const double* factor, int64_t n, double* b) {
  const auto dot_rows = simd_loops().dot_rows_double;
  for (int64_t i = 0; i < n; ++i) {
    const double* row = factor + i * n;
    double known = 0.0;
    if (i > 0) dot_rows(row, 1, i, n, b, &known);
    b[i] = (b[i] - known) / row[i];
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    const double* row = factor + i * n;
    b[i] /= row[i];
    const double own = b[i];
    for (int64_t k = 0; k < i; ++k) b[k] -= own * row[k];
  }
}

}  // namespace ranksvm
