// The inner loops that exist once per instruction set, behind one table of function pointers.
#pragma once

#include <cstdint>

#include "ranksvm/radix.hpp"
#include "ranksvm/simd_tiles.hpp"

namespace ranksvm {

struct SimdLoops {
  const char* name;
  void (*count_sweep)(const CountSweep&, Round);
  void (*sum_sweep)(const SumSweep<SumRecord>&, Round);
  void (*split_sweep)(const SumSweep<SplitRecord>&, Round);
  void (*net_sweep)(const SumSweep<NetRecord>&, Round);
  void (*role_sweep)(const SumSweep<RoleRecord>&, Round);
  // Violated pairs among n <= kMaskItems items in relevance order: bit j of the mask of i (word
  // j / 64 of mask_words(n)) is set when the pair of i and j is comparable and violated; count[i]
  // is added to. Items of one level share level[].
  void (*leaf_masks)(const double* score, const uint32_t* level, unsigned n, double margin,
                     uint64_t* mask, PairCount* count);
  // sum[i] = sum of value[j] over all j with bit i in their mask.
  void (*leaf_sums)(const double* value, const uint64_t* mask, unsigned n, double* sum);
  // above[k][i] = sum of value[k][j] over all j > i with bit i in their mask, below[k][i] over all
  // j < i; for one payload k, or two at a time. Their elements from n to kMaskItems may be written.
  void (*leaf_split)(const double* const* value, const uint64_t* mask, unsigned n,
                     double* const* above, double* const* below);
  void (*leaf_split_two)(const double* const* value, const uint64_t* mask, unsigned n,
                         double* const* above, double* const* below);
  // gram[i][j] += sum over the rows of a[row][i] * b[row][j], at least for i <= j. All arrays have
  // rows of `width` elements, a multiple of 8.
  void (*add_gram)(const double* a, const double* b, unsigned rows, unsigned width, double* gram);
  // Rows of a dense matrix, `stride` elements apart: out[r] = <row r, x>.
  void (*dot_rows_double)(const double* a, int64_t rows, int64_t cols, int64_t stride,
                          const double* x, double* out);
  void (*dot_rows_float)(const float* a, int64_t rows, int64_t cols, int64_t stride,
                         const double* x, double* out);
  // sum[c] += sum over the rows r of g[r] * a[r][c].
  void (*add_rows_double)(const double* a, int64_t rows, int64_t cols, int64_t stride,
                          const double* g, double* sum);
  void (*add_rows_float)(const float* a, int64_t rows, int64_t cols, int64_t stride,
                         const double* g, double* sum);
  // off[r][c] = x[r][c] - mean[c] and weighted[r][c] = weight[r] * off[r][c]; the rows of x are
  // `stride` elements apart, those of the results `width`.
  void (*deviations_double)(const double* x, int64_t rows, int64_t cols, int64_t stride,
                            const double* mean, const double* weight, int64_t width, double* off,
                            double* weighted);
  void (*deviations_float)(const float* x, int64_t rows, int64_t cols, int64_t stride,
                           const double* mean, const double* weight, int64_t width, double* off,
                           double* weighted);
  // net[i][c] = number of rows j with x[j][c] < x[i][c], minus the number with x[j][c] > x[i][c].
  // Both arrays have rows of `width` elements, a multiple of 8.
  void (*net_counts)(const double* x, int64_t rows, int64_t width, int64_t* net);
  TileLoops tiles;  // of kernel matrices
};

// The loops for the best instruction set that this processor has.
const SimdLoops& simd_loops();
// "base", "avx2" or "avx512", or nullptr when this processor or build cannot run it.
const SimdLoops* simd_loops_named(const char* name);

}  // namespace ranksvm
