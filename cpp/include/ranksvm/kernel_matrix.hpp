// Products with kernel matrices K[i, j] = k(x_i, z_j) that are never held as a whole; the functions
// k are in kernel_function.hpp.
//
// Items are rows of a dense or a sparse matrix, on either side. The matrix is computed in tiles
// (simd_tiles.hpp) that are used at once and forgotten; computation is in double throughout. The
// tiles and the order of all sums depend on the shapes alone: every number of threads gives the
// same bits. Instruction sets may differ in the last ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ranksvm/buffer.hpp"
#include "ranksvm/kernel_function.hpp"
#include "ranksvm/parallel.hpp"
#include "ranksvm/products.hpp"
#include "ranksvm/simd.hpp"
#include "ranksvm/simd_tiles.hpp"

namespace ranksvm {

// A good height for the strips below, and the largest one.
constexpr int64_t kStripRows = 512;

// Throws std::invalid_argument for an unknown name or parameters that have no meaning.
KernelFunction kernel_function(const std::string& name, double gamma, double coef0, int64_t degree,
                               double scale);

class WorkspacePool;

// Items, with what the kernel functions need to know of each. The arrays are the caller's and have
// to outlive this object. Numbers are scaled, and converted to double, a few rows at a time on
// their way into a tile: there is no scaled copy of all items.
class KernelRows {
 public:
  using Data = std::variant<Strided<double>, Strided<float>, SparseRows<double, int32_t>,
                            SparseRows<double, int64_t>, SparseRows<float, int32_t>,
                            SparseRows<float, int64_t>>;

  // `shift` has one element a row, or is null for zeros. Throws std::invalid_argument unless the
  // columns of every sparse row ascend and lie inside the matrix, or if the scale would make sparse
  // items dense.
  explicit KernelRows(Data data, ItemScale scale = {}, const double* shift = nullptr,
                      const SimdLoops& loops = simd_loops(), const Context& context = Context());
  ~KernelRows();
  KernelRows(const KernelRows&) = delete;
  KernelRows& operator=(const KernelRows&) = delete;

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  const Data& data() const { return data_; }
  const ItemScale& scale() const { return scale_; }
  bool sparse() const { return data_.index() > 1; }
  const double* shift() const { return shift_; }
  const std::vector<double>& squares() const { return squares_; }  // |x|^2
  double l1_norm(int64_t row) const;                               // |x|_1
  const SimdLoops& loops() const { return loops_; }
  // Packs the rows as columns of tiles, once for all tiles; for dense rows that are not too long.
  void keep_panels(const Context& context);
  // Panels of the rows from `first` on; null if they are not kept, or none begins there.
  const double* panels(int64_t first) const;
  // Memory of threads that have tiles of these rows to compute, kept for the next call.
  WorkspacePool& workspaces() const { return *workspaces_; }

 private:
  Data data_;
  ItemScale scale_;
  const double* shift_;
  const SimdLoops& loops_;
  int64_t rows_, cols_;
  std::vector<double> squares_;
  Buffer<double> panels_;  // empty if they are not kept
  std::unique_ptr<WorkspacePool> workspaces_;
};

struct Range {
  int64_t first, last;
  int64_t size() const { return last - first; }
};

// out[i][j] = k(a_i, b_j) for rows i of `ra` and j of `rb`; rows of out are `stride` apart. For
// float the value is rounded.
template <class T>
void kernel_block(const KernelFunction& f, const KernelRows& a, Range ra, const KernelRows& b,
                  Range rb, T* out, int64_t stride, const Context& context);

// out[i] = sum over j of k(a_i, b_j) coef[j].
void kernel_cross(const KernelFunction& f, const KernelRows& a, const KernelRows& b,
                  const double* coef, double* out, const Context& context);

// The matrix K[i, j] = k(a_i, a_j) of some items, for products. It is symmetric: only the strips
// K[rows, rows.first : n] of `height` rows each are used, directly and transposed. `held` tells
// which of them are kept in memory; the others are computed anew in every product, with the same
// result to the last bit. Values are rounded to T before they are used.
//
// A strip is kept tile by tile, so that a thread that computes a tile has its pages of memory to
// itself.
template <class T>
class KernelStrips {
 public:
  // The items have to outlive this object.
  KernelStrips(const KernelFunction& f, const KernelRows& a, int64_t height,
               const std::vector<bool>& held, const Context& context);
  int64_t rows() const { return a_.rows(); }
  // y = K x.
  void product(const double* x, double* y, const Context& context) const;

 private:
  KernelFunction f_;
  const KernelRows& a_;
  std::vector<Range> rows_;  // of the strips
  std::shared_ptr<Memory> memory_;
  std::vector<Buffer<T>> values_;  // empty if they are not kept
};

// A strip of any symmetric matrix, of at most kStripRows rows. With S = K[rows, rows.first : n],
//   y[rows]          += S x[rows.first : n]
//   y[rows.last : n] += S[:, rows.last - rows.first :]' x[rows]
// so that strips which cover all rows add K x to y, to the last bit as above.
// S[i][j] = strip[i * stride + j].
template <class T>
void symmetric_strip(const T* strip, int64_t stride, Range rows, int64_t n, const double* x,
                     double* y, const Context& context, const SimdLoops& loops = simd_loops());

}  // namespace ranksvm
