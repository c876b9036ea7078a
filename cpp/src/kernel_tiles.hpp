// Tiles of a kernel matrix, computed by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ranksvm/buffer.hpp"
#include "ranksvm/kernel_matrix.hpp"

namespace ranksvm {

constexpr int64_t kDepth = 256;      // features whose panels stay in the second-level cache
constexpr int64_t kChunkRows = 512;  // rows of a tile that is built up in several goes

template <class T>
constexpr bool kIsDense = std::is_same_v<T, Strided<double>> || std::is_same_v<T, Strided<float>>;

// A nonzero of sparse rows, scaled; `factor` may be null.
template <class T, class I>
double value_at(const SparseRows<T, I>& b, const double* factor, int64_t e) {
  const auto value = static_cast<double>(b.value[e]);
  return factor == nullptr ? value : value * factor[b.column[e]];
}

// Sets row[i] to the scaled features of row first + i, for n rows; beyond the end of `rows` the
// last one again. They are those of the items as they lie in memory if nothing has to be done to
// them; else they are made in `room`, of room_for_rows elements.
void read_rows(const KernelRows& items, Range rows, int64_t n, Range features, double* room,
               const double** row);
int64_t room_for_rows(const KernelRows& items, int64_t n, Range features);

// Packs one panel of the dense rows `rb`; of some features only.
void pack_dense(const KernelRows& items, Range rb, Range features, double* room, double* panel);

// What one thread needs to compute tiles.
struct Workspace {
  Buffer<double> panels, tile, scaled;
  Buffer<float> rounded;
  std::vector<int32_t> slot;  // by column; all zero between two uses
  double col_term[kTileCols];
};

// Workspaces that are free. A computation takes one a task and returns it, so that memory is
// touched once and not in every call.
class WorkspacePool {
 public:
  // Returns the workspace when it goes; one that was left in the middle of something is thrown
  // away.
  class Lease {
   public:
    explicit Lease(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
    ~Lease() {
      if (std::uncaught_exceptions() == exceptions_) pool_.give(std::move(workspace_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Workspace& workspace() { return *workspace_; }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Workspace> workspace_;
    int exceptions_ = std::uncaught_exceptions();
  };

  // Makes the buffer large enough; what was in it is lost.
  template <class T>
  T* room(Buffer<T>& buffer, int64_t n) {
    const auto size = static_cast<std::size_t>(n);
    if (buffer.size() < size) {
      buffer = Buffer<T>(std::max(size, buffer.size() + buffer.size() / 2), memory_);
    }
    return buffer.data();
  }

 private:
  std::unique_ptr<Workspace> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return std::make_unique<Workspace>();
    std::unique_ptr<Workspace> workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give(std::unique_ptr<Workspace> workspace) noexcept {
    try {
      const std::lock_guard<std::mutex> lock(mutex_);
      free_.push_back(std::move(workspace));
    } catch (...) {
    }
  }

  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

// Computes tiles of k(a_i, b_j) in one workspace. Short dense rows are finished a block at a time,
// which never leaves the first-level cache; otherwise the inner products of a whole chunk of rows
// are collected first, panel by panel or a range of features at a time.
class TileMaker {
 public:
  TileMaker(const KernelFunction& f, const KernelRows& a, const KernelRows& b,
            const Context& context)
      : f_(f), a_(a), b_(b), tiles_(a.loops().tiles), context_(context), lease_(a.workspaces()) {
    const auto cols = static_cast<std::size_t>(b.cols());
    auto& slot = workspace().slot;
    if (a.sparse() && b.sparse() && slot.size() < cols) slot.resize(cols, 0);
  }

  // Calls take(first row, number of rows, tile) for blocks of at most kBlockRows rows, in order;
  // the rows of the tile are kTileCols apart. `rb` has at most kTileCols columns.
  template <class Take>
  void operator()(Range ra, Range rb, Take take) {
    const Range features{0, a_.cols()};
    const bool at_once = !a_.sparse() && features.size() <= kDepth;
    const int64_t height = at_once ? kBlockRows : kChunkRows;
    double* tile = room(workspace().tile, height * kTileCols);
    set_col_terms(rb);
    if (at_once) pack_panels(rb, features);
    for (int64_t first = ra.first; first < ra.last; first += height) {
      const Range chunk{first, std::min(first + height, ra.last)};
      if (at_once) {
        add_features(chunk, rb, features, tile);
      } else if (a_.sparse()) {
        sparse_chunk(chunk, rb, tile);
      } else {
        dense_chunk(chunk, rb, tile);
      }
      for (int64_t row = chunk.first; row < chunk.last; row += kBlockRows) {
        const int64_t rows = std::min(kBlockRows, chunk.last - row);
        double* block = tile + (row - chunk.first) * kTileCols;
        tiles_.apply(f_, a_.squares().data() + row, workspace().col_term, rows, rb.size(), block);
        take(row, rows, static_cast<const double*>(block));
      }
    }
  }

  // A block in single precision, laid out in the same way.
  const float* rounded(const double* block, int64_t rows, int64_t cols) {
    float* to = room(workspace().rounded, kBlockRows * kTileCols);
    for (int64_t r = 0; r < rows; ++r)
      tiles_.round(block + r * kTileCols, cols, to + r * kTileCols);
    return to;
  }

 private:
  void set_col_terms(Range rb);
  // Packs one panel, or all panels unless they are kept, of the columns `rb`; of some features
  // only.
  void pack_panel(Range rb, Range features, double* panel);
  void pack_panels(Range rb, Range features);
  // The sums over these features, whose panels are packed; added to the tile unless they are the
  // first ones.
  void add_features(Range chunk, Range rb, Range features, double* tile);
  void dense_chunk(Range chunk, Range rb, double* tile);
  void sparse_chunk(Range chunk, Range rb, double* tile);
  template <class T, class I>
  void sparse_panels(const SparseRows<T, I>& a, Range chunk, Range rb, double* tile);

  Workspace& workspace() { return lease_.workspace(); }
  template <class T>
  T* room(Buffer<T>& buffer, int64_t n) {
    return a_.workspaces().room(buffer, n);
  }

  const KernelFunction& f_;
  const KernelRows& a_;
  const KernelRows& b_;
  const TileLoops& tiles_;
  const Context& context_;
  WorkspacePool::Lease lease_;
  const double* panels_ = nullptr;  // set by pack_panels
};

}  // namespace ranksvm
