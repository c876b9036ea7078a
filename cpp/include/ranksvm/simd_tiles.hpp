// Tiles of kernel matrices: the loops that exist once per instruction set.
//
// A tile holds k(x_i, z_j) for some rows x_i and at most kTileCols columns z_j. It is made in three
// steps, on pieces small enough to stay in the first-level cache:
//
//   1. inner products <x_i, z_j> or distances |x_i - z_j|_1. Columns are packed into panels: the
//      items of a panel lie interleaved, feature by feature, so that one vector register holds one
//      feature of several items. A dense row is broadcast against a panel, feature by feature, for
//      several rows and registers at a time; of a sparse row only the nonzeros are.
//   2. the kernel function, in place (rbf: exp(-gamma max(0, |x|^2 + |z|^2 - 2 <x, z>))).
//   3. what the tile is wanted for: sums along its rows, and along its columns.
//
// Every entry is computed alone and features are added one after the other, so an entry depends on
// its two items and on nothing else: not on the tile, not on its place in it. The squares |x|^2 are
// added in the same order, hence |x - x|^2 is exactly 0. AVX2 and AVX-512 use fused multiplications
// and additions here, so instruction sets may differ in the last bits.
#pragma once

#include <cstdint>

#include "ranksvm/kernel_function.hpp"

namespace ranksvm {

constexpr int64_t kTileCols = 384;  // a multiple of the panel of every instruction set
constexpr int64_t kBlockRows = 8;   // rows that are finished together

// What becomes of the numbers of an item before a kernel sees them, by column:
//
//   2 ((x / 2 - offset / 2) factor) - centre
//
// which is (x - offset) factor - centre, and does not overflow on the way. Offset and factor, or
// the centre, may be null: that step is left out. Of sparse items there is a factor only, and
// x * factor.
struct ItemScale {
  const double* offset = nullptr;
  const double* factor = nullptr;
  const double* centre = nullptr;

  bool empty() const { return factor == nullptr && centre == nullptr; }
};

// The nonzeros of row r are start[r] .. start[r + 1], columns ascending; `factor` may be null.
template <class T, class I>
struct SparseItems {
  const I* start;
  const I* column;
  const T* value;
  const double* factor;
};

// Rows [first, last) of `a` against one panel; row r goes to out + (r - first) * stride. Feature c
// of the panel is its line slot[c], or c if there are no slots; line 0 of a panel with slots is
// zero, and stands for all features that its items do not have.
template <class T, class I>
struct SparseAgainstPanel {
  SparseItems<T, I> a;
  int64_t first, last;
  const int32_t* slot;
  const double* panel;
  double* out;
  int64_t stride;
};

// Loops over sparse rows with values of type T.
template <class T>
struct SparseLoops {
  void (*dots32)(const SparseAgainstPanel<T, int32_t>&);
  void (*dots64)(const SparseAgainstPanel<T, int64_t>&);
  // |x - z|_1 - |z|_1 for row x and item z of the panel.
  void (*distances32)(const SparseAgainstPanel<T, int32_t>&);
  void (*distances64)(const SparseAgainstPanel<T, int64_t>&);
};

struct TileLoops {
  int64_t panel;  // items of a panel
  // to[r][k] = x[r][k], scaled, for n columns from the first of the scale on; rows of x are
  // `stride` apart, those of `to` follow each other. `to` may be x.
  void (*scale_double)(const double* x, int64_t stride, int64_t rows, int64_t n,
                       const ItemScale& scale, double* to);
  void (*scale_float)(const float* x, int64_t stride, int64_t rows, int64_t n,
                      const ItemScale& scale, double* to);
  // panel[k][i] = row[i][k] for `panel` rows.
  void (*pack)(const double* const* row, int64_t depth, double* panel);
  // out[r][j] = sum over k < depth of row[r][k] * panel[k][j] for `rows` rows and the items of all
  // panels (`depth` lines each); with `add`, added to out, which has rows of kTileCols. `row` and
  // out have kBlockRows rows, of which some behind the first `rows` may be used, too.
  void (*dots)(const double* const* row, int64_t rows, int64_t depth, const double* panels,
               int64_t n_panels, bool add, double* out);
  // The same for the sum of |row[r][k] - panel[k][j]|.
  void (*distances)(const double* const* row, int64_t rows, int64_t depth, const double* panels,
                    int64_t n_panels, bool add, double* out);
  SparseLoops<double> sparse_double;
  SparseLoops<float> sparse_float;
  // Step 2 for `rows` rows of kTileCols, of which the first `cols` are wanted and some more may be
  // changed. row_term: |x|^2 for rbf. col_term: |z|^2 for rbf, what the distances lack for
  // laplacian, the shift for cosine; kTileCols elements.
  void (*apply)(const KernelFunction& f, const double* row_term, const double* col_term,
                int64_t rows, int64_t cols, double* tile);
  void (*round)(const double* from, int64_t n, float* to);
  // Step 3 for at most kBlockRows rows: sums[r] = sum over the columns of tile[r][j] * x[j], and,
  // unless y is null, y[j] += sum over the rows of tile[r][j] * u[r]. `ahead` tells that as many
  // rows follow and come next, so that they are worth fetching from memory.
  void (*sums_double)(const double* tile, int64_t stride, int64_t rows, int64_t cols, bool ahead,
                      const double* x, const double* u, double* sums, double* y);
  void (*sums_float)(const float* tile, int64_t stride, int64_t rows, int64_t cols, bool ahead,
                     const double* x, const double* u, double* sums, double* y);
  // Sum of squares in the order of the sums of `dots`.
  double (*squares)(const double* value, int64_t n);
};

}  // namespace ranksvm
