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

template <class T, class I>
void need_ascending(const SparseRows<T, I>& a, int64_t first, int64_t last) {
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

// The scale of the features from `first` on.
ItemScale from(const ItemScale& scale, int64_t first) {
  const auto moved = [first](const double* x) { return x == nullptr ? nullptr : x + first; };
  return {moved(scale.offset), moved(scale.factor), moved(scale.centre)};
}

auto scale_loop(const TileLoops& tiles, const double*) { return tiles.scale_double; }
auto scale_loop(const TileLoops& tiles, const float*) { return tiles.scale_float; }

// Whether rows can be used as they lie in memory.
bool is_plain(const Strided<double>& d, const ItemScale& scale) {
  return scale.empty() && (d.col_stride == 1 || d.cols <= 1);
}
bool is_plain(const Strided<float>&, const ItemScale&) { return false; }

template <class T>
void read_strided(const Strided<T>& d, const KernelRows& items, Range rows, int64_t n,
                  Range features, double* room, const double** row) {
  const T* const start = d.data + features.first * d.col_stride;
  const int64_t depth = features.size(), there = std::min(n, rows.size());
  if constexpr (std::is_same_v<T, double>) {
    if (is_plain(d, items.scale())) {
      for (int64_t i = 0; i < n; ++i) {
        row[i] = start + (rows.first + std::min(i, there - 1)) * d.row_stride;
      }
      return;
    }
  }
  const TileLoops& tiles = items.loops().tiles;
  const ItemScale scale = from(items.scale(), features.first);
  if (d.col_stride == 1 || d.cols <= 1) {
    const T* const first = start + rows.first * d.row_stride;
    scale_loop(tiles, first)(first, d.row_stride, there, depth, scale, room);
  } else {  // by columns, of which some rows lie side by side
    for (int64_t k = 0; k < depth; ++k) {
      const T* const column = start + rows.first * d.row_stride + k * d.col_stride;
      for (int64_t i = 0; i < there; ++i) {
        room[i * depth + k] = static_cast<double>(column[i * d.row_stride]);
      }
    }
    if (!scale.empty()) tiles.scale_double(room, depth, there, depth, scale, room);
  }
  for (int64_t i = 0; i < n; ++i) row[i] = room + std::min(i, there - 1) * depth;
}

}  // namespace

void read_rows(const KernelRows& items, Range rows, int64_t n, Range features, double* room,
               const double** row) {
  std::visit(
      [&](const auto& d) {
        if constexpr (kIsDense<std::decay_t<decltype(d)>>) {
          read_strided(d, items, rows, n, features, room, row);
        }
      },
      items.data());
}

int64_t room_for_rows(const KernelRows& items, int64_t n, Range features) {
  return std::visit(
      [&](const auto& d) -> int64_t {
        if constexpr (kIsDense<std::decay_t<decltype(d)>>) {
          return is_plain(d, items.scale()) ? 0 : n * features.size();
        }
        return 0;
      },
      items.data());
}

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

KernelRows::KernelRows(Data data, ItemScale scale, const double* shift, const SimdLoops& loops,
                       const Context& context)
    : data_(std::move(data)),
      scale_(scale),
      shift_(shift),
      loops_(loops),
      rows_(std::visit([](const auto& d) { return d.rows; }, data_)),
      cols_(std::visit([](const auto& d) { return d.cols; }, data_)),
      squares_(rows_),
      workspaces_(std::make_unique<WorkspacePool>()) {
  if (sparse() && (scale_.offset != nullptr || scale_.centre != nullptr)) {
    throw std::invalid_argument("sparse items have no offsets: they would become dense");
  }
  const auto squares = loops_.tiles.squares;
  std::visit(
      [&](const auto& d) {
        int64_t values = rows_ * cols_;
        constexpr bool kDense = kIsDense<std::decay_t<decltype(d)>>;
        if constexpr (!kDense) values = d.start[rows_];
        const int64_t step =
            std::max<int64_t>(1, rows_ * kPieceValues / std::max(values, rows_ + 1));
        const Context threads = values < kWorthThreads ? context.one_thread() : context;
        threads.parallel_for((rows_ + step - 1) / step, [&](std::size_t piece, const Context&) {
          const int64_t first = static_cast<int64_t>(piece) * step;
          const int64_t last = std::min(first + step, rows_);
          std::vector<double> room;
          if constexpr (kDense) {
            const Range features{0, cols_};
            room.resize(room_for_rows(*this, kBlockRows, features));
            const double* row[kBlockRows];
            for (int64_t r = first; r < last; r += kBlockRows) {
              read_rows(*this, {r, last}, kBlockRows, features, room.data(), row);
              const int64_t n = std::min(kBlockRows, last - r);
              for (int64_t i = 0; i < n; ++i) squares_[r + i] = squares(row[i], cols_);
            }
          } else {
            need_ascending(d, first, last);
            for (int64_t r = first; r < last; ++r) {
              room.clear();
              for (auto e = d.start[r]; e < d.start[r + 1]; ++e) {
                room.push_back(value_at(d, scale_.factor, e));
              }
              squares_[r] = squares(room.data(), static_cast<int64_t>(room.size()));
            }
          }
        });
      },
      data_);
}

KernelRows::~KernelRows() = default;

void KernelRows::keep_panels(const Context& context) {
  if (sparse() || rows_ == 0 || cols_ == 0 || cols_ > kDepth) return;
  const int64_t width = loops_.tiles.panel;
  const int64_t n = (rows_ + width - 1) / width;
  Buffer<double> panels(n * width * cols_, std::make_shared<Memory>(0));
  context.parallel_for(n, [&](std::size_t panel, const Context&) {
    const int64_t first = static_cast<int64_t>(panel) * width;
    const Range features{0, cols_};
    std::vector<double> room(room_for_rows(*this, width, features));
    pack_dense(*this, {first, std::min(first + width, rows_)}, features, room.data(),
               panels.data() + first * cols_);
  });
  panels_ = std::move(panels);
}

const double* KernelRows::panels(int64_t first) const {
  if (panels_.size() == 0 || first % loops_.tiles.panel != 0) return nullptr;
  return panels_.data() + first * cols_;
}

double KernelRows::l1_norm(int64_t row) const {
  double sum = 0.0;
  std::visit(
      [&](const auto& d) {
        if constexpr (kIsDense<std::decay_t<decltype(d)>>) {
          const Range features{0, cols_};
          std::vector<double> room(room_for_rows(*this, 1, features));
          const double* values;
          read_rows(*this, {row, row + 1}, 1, features, room.data(), &values);
          for (int64_t k = 0; k < cols_; ++k) sum += std::fabs(values[k]);
        } else {
          for (auto e = d.start[row]; e < d.start[row + 1]; ++e) {
            sum += std::fabs(value_at(d, scale_.factor, e));
          }
        }
      },
      data_);
  return sum;
}

}  // namespace ranksvm
