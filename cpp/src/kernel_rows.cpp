#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "kernel_tiles.hpp"

namespace ranksvm {
namespace {

// Values of rows that a thread looks at, at a time, and the least number worth several threads.
constexpr int64_t kPieceValues = int64_t{1} << 15;
constexpr int64_t kWorthThreads = int64_t{1} << 17;

template <class I>
void need_ascending(const SparseRows<double, I>& a, int64_t first, int64_t last) {
  bool fine = true;
  for (int64_t r = first; r < last && fine; ++r) {
    I before = -1;
    for (I e = a.start[r]; e < a.start[r + 1]; ++e) {
      fine &= a.column[e] > before;
      before = a.column[e];
    }
    fine &= before < a.cols;
  }
  if (!fine) {
    throw std::invalid_argument(
        "the columns of a sparse row must ascend, be distinct and lie inside the matrix; call "
        "sum_duplicates() on it first");
  }
}

}  // namespace

KernelFunction kernel_function(const std::string& name, double gamma, double coef0, int64_t degree,
                               double scale) {
  const std::pair<const char*, KernelKind> kinds[] = {
      {"linear", KernelKind::linear},       {"poly", KernelKind::poly},
      {"sigmoid", KernelKind::sigmoid},     {"rbf", KernelKind::rbf},
      {"laplacian", KernelKind::laplacian}, {"cosine", KernelKind::cosine}};
  const auto wrong = [&](const std::string& what, auto value, const char* wanted) {
    throw std::invalid_argument("kernel '" + name + "' has " + what + " = " +
                                std::to_string(value) + ", expected " + wanted);
  };
  for (const auto& [known, kind] : kinds) {
    if (name != known) continue;
    if (!std::isfinite(gamma)) wrong("gamma", gamma, "a finite number");
    if (!std::isfinite(coef0)) wrong("coef0", coef0, "a finite number");
    if (!std::isfinite(scale)) wrong("scale", scale, "a finite number");
    const bool decays = kind == KernelKind::rbf || kind == KernelKind::laplacian;
    if (decays && gamma < 0.0) wrong("gamma", gamma, "at least 0");
    if (kind == KernelKind::poly && degree < 0) wrong("degree", degree, "at least 0");
    return {kind, gamma, coef0, degree, scale};
  }
  std::string valid;
  for (const auto& [known, kind] : kinds) valid += (valid.empty() ? "" : ", ") + std::string(known);
  throw std::invalid_argument("unknown kernel '" + name + "'; valid: " + valid);
}

KernelRows::KernelRows(Data data, const double* shift, const SimdLoops& loops,
                       const Context& context)
    : data_(std::move(data)),
      shift_(shift),
      loops_(loops),
      rows_(std::visit([](const auto& d) { return d.rows; }, data_)),
      cols_(std::visit([](const auto& d) { return d.cols; }, data_)),
      squares_(rows_),
      workspaces_(std::make_unique<WorkspacePool>()) {
  const auto squares = loops_.tiles.squares;
  std::visit(
      [&](const auto& d) {
        int64_t values = rows_ * cols_;
        constexpr bool kDense = std::is_same_v<std::decay_t<decltype(d)>, DenseRows<double>>;
        if constexpr (!kDense) values = d.start[rows_];
        const int64_t step =
            std::max<int64_t>(1, rows_ * kPieceValues / std::max(values, rows_ + 1));
        const Context threads = values < kWorthThreads ? context.one_thread() : context;
        threads.parallel_for((rows_ + step - 1) / step, [&](std::size_t piece, const Context&) {
          const int64_t first = static_cast<int64_t>(piece) * step;
          const int64_t last = std::min(first + step, rows_);
          if constexpr (!kDense) need_ascending(d, first, last);
          for (int64_t r = first; r < last; ++r) {
            if constexpr (kDense) {
              squares_[r] = squares(d.data + r * d.stride, cols_);
            } else {
              squares_[r] = squares(d.value + d.start[r], d.start[r + 1] - d.start[r]);
            }
          }
        });
      },
      data_);
}

KernelRows::~KernelRows() = default;

void KernelRows::keep_panels(const Context& context) {
  const auto* dense = std::get_if<DenseRows<double>>(&data_);
  if (dense == nullptr || rows_ == 0 || cols_ == 0 || cols_ > kDepth) return;
  const int64_t width = loops_.tiles.panel;
  const int64_t n = (rows_ + width - 1) / width;
  Buffer<double> panels(n * width * cols_, std::make_shared<Memory>(0));
  context.parallel_for(n, [&](std::size_t panel, const Context&) {
    const int64_t first = static_cast<int64_t>(panel) * width;
    pack_dense(loops_.tiles, *dense, {first, std::min(first + width, rows_)}, {0, cols_},
               panels.data() + first * cols_);
  });
  panels_ = std::move(panels);
}

const double* KernelRows::panels(int64_t first) const {
  if (panels_.size() == 0 || first % loops_.tiles.panel != 0) return nullptr;
  return panels_.data() + first * cols_;
}

template <class T>
void centre_rows(const T* x, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride,
                 const double* centre, double* out, const Context& context) {
  const int64_t step = std::max<int64_t>(1, kPieceValues / std::max<int64_t>(1, cols));
  const Context threads = rows * cols < kWorthThreads ? context.one_thread() : context;
  threads.parallel_for((rows + step - 1) / step, [&](std::size_t piece, const Context&) {
    const int64_t first = static_cast<int64_t>(piece) * step;
    for (int64_t r = first; r < std::min(first + step, rows); ++r) {
      const T* const from = x + r * row_stride;
      double* const to = out + r * cols;
      for (int64_t c = 0; c < cols; ++c) {
        to[c] = static_cast<double>(from[c * col_stride]) - centre[c];
      }
    }
  });
}
template void centre_rows(const float*, int64_t, int64_t, int64_t, int64_t, const double*, double*,
                          const Context&);
template void centre_rows(const double*, int64_t, int64_t, int64_t, int64_t, const double*, double*,
                          const Context&);

double KernelRows::l1_norm(int64_t row) const {
  double sum = 0.0;
  std::visit(
      [&](const auto& d) {
        if constexpr (std::is_same_v<std::decay_t<decltype(d)>, DenseRows<double>>) {
          for (int64_t k = 0; k < cols_; ++k) sum += std::fabs(d.data[row * d.stride + k]);
        } else {
          for (auto e = d.start[row]; e < d.start[row + 1]; ++e) sum += std::fabs(d.value[e]);
        }
      },
      data_);
  return sum;
}

}  // namespace ranksvm
