// Loops over tiles of kernel matrices (simd_tiles.hpp) for one instruction set, whose vectors
// (namespace simd) are included before. As for simd_impl.hpp, nothing here may be shared with the
// rest of the library by the linker.
#pragma once

#include <cstdint>

#include "ranksvm/simd_tiles.hpp"
#include "simd_math_impl.hpp"
#include "simd_unrolled.hpp"

namespace ranksvm {
namespace {
namespace tiles {

using simd::Vec;

constexpr int64_t kWidth = Vec::kWidth;
constexpr int64_t kPanel = simd::kMicroVectors * kWidth;
static_assert(kTileCols % kPanel == 0 && kBlockRows % simd::kMicroRows == 0);

// --- Step 1 --------------------------------------------------------------------------------------

// Some columns of all rows at a time: what is subtracted from them stays in registers.
template <bool kFactor, bool kCentre, class T>
void scale_rows(const T* x, int64_t stride, int64_t rows, int64_t n, const ItemScale& scale,
                double* to) {
  const Vec half = simd::splat(0.5), two = simd::splat(2.0);
  Vec offset = half, factor = half, centre = half;
  int64_t k = 0;
  for (; k + kWidth <= n; k += kWidth) {
    if constexpr (kFactor) {
      offset = half * simd::load(scale.offset + k);
      factor = simd::load(scale.factor + k);
    }
    if constexpr (kCentre) centre = simd::load(scale.centre + k);
    for (int64_t r = 0; r < rows; ++r) {
      Vec value = simd::load(x + r * stride + k);
      if constexpr (kFactor) value = two * ((half * value - offset) * factor);
      if constexpr (kCentre) value = value - centre;
      simd::store(to + r * n + k, value);
    }
  }
  for (; k < n; ++k) {
    for (int64_t r = 0; r < rows; ++r) {
      auto value = static_cast<double>(x[r * stride + k]);
      if constexpr (kFactor) {
        value = 2.0 * ((0.5 * value - 0.5 * scale.offset[k]) * scale.factor[k]);
      }
      if constexpr (kCentre) value -= scale.centre[k];
      to[r * n + k] = value;
    }
  }
}

template <class T>
void scale(const T* x, int64_t stride, int64_t rows, int64_t n, const ItemScale& s, double* to) {
  if (s.factor != nullptr && s.centre != nullptr) {
    return scale_rows<true, true>(x, stride, rows, n, s, to);
  }
  if (s.factor != nullptr) return scale_rows<true, false>(x, stride, rows, n, s, to);
  if (s.centre != nullptr) return scale_rows<false, true>(x, stride, rows, n, s, to);
  scale_rows<false, false>(x, stride, rows, n, s, to);
}

void pack(const double* const* row, int64_t depth, double* panel) {
  for (int64_t i = 0; i < kPanel; i += kWidth) {
    int64_t k = 0;
    for (; k + kWidth <= depth; k += kWidth) {
      Vec square[kWidth];
      for (int64_t l = 0; l < kWidth; ++l) square[l] = simd::load(row[i + l] + k);
      simd::transpose(square);
      for (int64_t l = 0; l < kWidth; ++l) simd::store(panel + (k + l) * kPanel + i, square[l]);
    }
    for (; k < depth; ++k) {
      for (int64_t l = 0; l < kWidth; ++l) panel[k * kPanel + i + l] = row[i + l][k];
    }
  }
}

struct Product {
  static Vec add(Vec sum, Vec x, Vec z) { return simd::fma(x, z, sum); }
};
struct Distance {
  static Vec add(Vec sum, Vec x, Vec z) { return sum + simd::abs(simd::minus(z, x)); }
};

template <class Term, int kRows>
void micro(const double* const* row, int64_t depth, const double* panel, bool add, double* out) {
  constexpr int kVectors = simd::kMicroVectors;
  Vec sum[kRows][kVectors];  // stays in registers
  simd::unrolled<kRows>([&](int r) {
    simd::unrolled<kVectors>([&](int v) {
      sum[r][v] = add ? simd::load(out + r * kTileCols + v * kWidth) : simd::splat(0.0);
    });
  });
  const double* from[kRows];
  simd::unrolled<kRows>([&](int r) { from[r] = row[r]; });
  for (int64_t k = 0; k < depth; ++k, panel += kPanel) {
    Vec z[kVectors];
    simd::unrolled<kVectors>([&](int v) { z[v] = simd::load(panel + v * kWidth); });
    simd::unrolled<kRows>([&](int r) {
      const Vec x = simd::splat(from[r][k]);
      simd::unrolled<kVectors>([&](int v) { sum[r][v] = Term::add(sum[r][v], x, z[v]); });
    });
  }
  simd::unrolled<kRows>([&](int r) {
    simd::unrolled<kVectors>(
        [&](int v) { simd::store(out + r * kTileCols + v * kWidth, sum[r][v]); });
  });
}

template <class Term, int kRows>
void dense_panels(const double* const* row, int64_t rows, int64_t depth, const double* panels,
                  int64_t n_panels, bool add, double* out) {
  for (int64_t p = 0; p < n_panels; ++p) {
    for (int64_t r = 0; r < rows; r += kRows) {
      micro<Term, kRows>(row + r, depth, panels + p * depth * kPanel, add,
                         out + r * kTileCols + p * kPanel);
    }
  }
}

template <class Term>
void dense(const double* const* row, int64_t rows, int64_t depth, const double* panels,
           int64_t n_panels, bool add, double* out) {
  constexpr int kRows = simd::kMicroRows, kFew = kRows / 2;
  if (rows == 1) return dense_panels<Term, 1>(row, rows, depth, panels, n_panels, add, out);
  if (rows <= kFew) return dense_panels<Term, kFew>(row, rows, depth, panels, n_panels, add, out);
  dense_panels<Term, kRows>(row, rows, depth, panels, n_panels, add, out);
}

// Of |x - z|_1 - |z|_1 only the nonzeros of x are left.
struct SparseDistance {
  static Vec add(Vec sum, Vec x, Vec z) {
    return sum + (simd::abs(simd::minus(z, x)) - simd::abs(z));
  }
};

template <class Term, bool kSlots, bool kScaled, class T, class I>
void sparse_rows(const SparseAgainstPanel<T, I>& s) {
  constexpr int kVectors = simd::kMicroVectors;
  for (int64_t r = s.first; r < s.last; ++r) {
    Vec sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = simd::splat(0.0);
    const auto end = static_cast<int64_t>(s.a.start[r + 1]);
    for (auto e = static_cast<int64_t>(s.a.start[r]); e < end; ++e) {
      const I column = s.a.column[e];
      auto value = static_cast<double>(s.a.value[e]);
      if constexpr (kScaled) value *= s.a.factor[column];
      const Vec x = simd::splat(value);
      const double* line =
          s.panel + static_cast<int64_t>(kSlots ? s.slot[column] : column) * kPanel;
      for (int v = 0; v < kVectors; ++v) {
        sum[v] = Term::add(sum[v], x, simd::load(line + v * kWidth));
      }
    }
    double* out = s.out + (r - s.first) * s.stride;
    for (int v = 0; v < kVectors; ++v) simd::store(out + v * kWidth, sum[v]);
  }
}

template <class Term, class T, class I>
void sparse(const SparseAgainstPanel<T, I>& s) {
  const bool scaled = s.a.factor != nullptr;
  if (s.slot != nullptr) {
    return scaled ? sparse_rows<Term, true, true>(s) : sparse_rows<Term, true, false>(s);
  }
  scaled ? sparse_rows<Term, false, true>(s) : sparse_rows<Term, false, false>(s);
}

template <class T>
constexpr SparseLoops<T> kSparseLoops = {sparse<Product, T, int32_t>, sparse<Product, T, int64_t>,
                                         sparse<SparseDistance, T, int32_t>,
                                         sparse<SparseDistance, T, int64_t>};

double squares(const double* value, int64_t n) {
  double sum = 0.0;
  for (int64_t k = 0; k < n; ++k) sum = simd::fma(value[k], value[k], sum);
  return sum;
}

// --- Step 2 --------------------------------------------------------------------------------------

// tile[r][j] = scale * f(tile[r][j], row_term[r], col_term[j])
template <class Function>
inline void for_all(double scale, const double* row_term, const double* col_term, int64_t rows,
                    int64_t cols, double* tile, Function f) {
  const auto for_each = [&](auto scaled) {
    for (int64_t r = 0; r < rows; ++r) {
      double* line = tile + r * kTileCols;
      const Vec own = simd::splat(row_term[r]);
      for (int64_t j = 0; j < cols; j += kWidth) {
        simd::store(line + j, scaled(f(simd::load(line + j), own, simd::load(col_term + j))));
      }
    }
  };
  if (scale == 1.0) return for_each([](Vec value) { return value; });
  const Vec factor = simd::splat(scale);
  for_each([factor](Vec value) { return factor * value; });
}

inline Vec power(Vec base, int64_t degree) {
  Vec result = simd::splat(1.0);
  for (; degree > 0; degree /= 2) {
    if (degree % 2 != 0) result = result * base;
    base = base * base;
  }
  return result;
}

void apply(const KernelFunction& f, const double* row_term, const double* col_term, int64_t rows,
           int64_t cols, double* tile) {
  const Vec gamma = simd::splat(f.gamma), coef0 = simd::splat(f.coef0), zero = simd::splat(0.0);
  const Vec minus_gamma = simd::splat(-f.gamma), minus_two = simd::splat(-2.0);
  const auto apply_to_tile = [&](auto function) {
    for_all(f.scale, row_term, col_term, rows, cols, tile, function);
  };
  switch (f.kind) {
    case KernelKind::linear:
      return apply_to_tile([&](Vec dot, Vec, Vec) { return dot; });
    case KernelKind::poly:
      return apply_to_tile(
          [&](Vec dot, Vec, Vec) { return power(simd::fma(gamma, dot, coef0), f.degree); });
    case KernelKind::sigmoid:
      return apply_to_tile(
          [&](Vec dot, Vec, Vec) { return simd::tanh(simd::fma(gamma, dot, coef0)); });
    case KernelKind::rbf:
      return apply_to_tile([&](Vec dot, Vec row, Vec col) {
        const Vec square = simd::max(zero, simd::fma(minus_two, dot, row + col));
        return simd::exp_negative(minus_gamma * square);
      });
    case KernelKind::laplacian:
      return apply_to_tile([&](Vec distance, Vec, Vec col) {
        return simd::exp_negative(minus_gamma * simd::max(zero, distance + col));
      });
    case KernelKind::cosine:
      return apply_to_tile(
          [&](Vec dot, Vec, Vec col) { return simd::cos(simd::fma(gamma, dot, col)); });
  }
}

void round(const double* from, int64_t n, float* to) {
  int64_t j = 0;
  for (; j + kWidth <= n; j += kWidth) simd::store(to + j, simd::load(from + j));
  for (; j < n; ++j) to[j] = static_cast<float>(from[j]);
}

// --- Step 3 --------------------------------------------------------------------------------------

// With kAhead, reads the next kBlockRows rows into the cache on the way.
template <int kRows, bool kColumns, bool kAhead, class T>
inline void block_sums(const T* tile, int64_t stride, int64_t cols, const double* x,
                       const double* u, double* sums, double* y) {
  Vec sum[kRows], own[kRows];
  for (int r = 0; r < kRows; ++r) {
    sum[r] = simd::splat(0.0);
    if constexpr (kColumns) own[r] = simd::splat(u[r]);
  }
  int64_t j = 0;
  for (; j + kWidth <= cols; j += kWidth) {
    const Vec other = simd::load(x + j);
    Vec column;
    if constexpr (kColumns) column = simd::load(y + j);
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kAhead) simd::prefetch(tile + (kBlockRows + r) * stride + j);
      const Vec value = simd::load(tile + r * stride + j);
      sum[r] = simd::fma(value, other, sum[r]);
      if constexpr (kColumns) column = simd::fma(value, own[r], column);
    }
    if constexpr (kColumns) simd::store(y + j, column);
  }
  for (int r = 0; r < kRows; ++r) sums[r] = simd::sum(sum[r]);
  for (; j < cols; ++j) {
    for (int r = 0; r < kRows; ++r) {
      const auto value = static_cast<double>(tile[r * stride + j]);
      sums[r] = simd::fma(value, x[j], sums[r]);
      if constexpr (kColumns) y[j] = simd::fma(value, u[r], y[j]);
    }
  }
}

template <bool kColumns, class T>
inline void some_sums(const T* tile, int64_t stride, int64_t rows, int64_t cols, bool ahead,
                      const double* x, const double* u, double* sums, double* y) {
  if (rows == kBlockRows && ahead) {
    return block_sums<kBlockRows, kColumns, true>(tile, stride, cols, x, u, sums, y);
  }
  if (rows == kBlockRows) {
    return block_sums<kBlockRows, kColumns, false>(tile, stride, cols, x, u, sums, y);
  }
  for (int64_t r = 0; r < rows; ++r) {
    block_sums<1, kColumns, false>(tile + r * stride, stride, cols, x, kColumns ? u + r : u,
                                   sums + r, y);
  }
}

template <class T>
void sums(const T* tile, int64_t stride, int64_t rows, int64_t cols, bool ahead, const double* x,
          const double* u, double* sum, double* y) {
  if (y == nullptr) return some_sums<false>(tile, stride, rows, cols, ahead, x, u, sum, y);
  some_sums<true>(tile, stride, rows, cols, ahead, x, u, sum, y);
}

}  // namespace tiles

constexpr TileLoops kTileLoops = {tiles::kPanel,
                                  tiles::scale<double>,
                                  tiles::scale<float>,
                                  tiles::pack,
                                  tiles::dense<tiles::Product>,
                                  tiles::dense<tiles::Distance>,
                                  tiles::kSparseLoops<double>,
                                  tiles::kSparseLoops<float>,
                                  tiles::apply,
                                  tiles::round,
                                  tiles::sums<double>,
                                  tiles::sums<float>,
                                  tiles::squares};

}  // namespace
}  // namespace ranksvm
