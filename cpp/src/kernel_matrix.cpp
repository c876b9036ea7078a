#include "ranksvm/kernel_matrix.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernel_tiles.hpp"

namespace ranksvm {
namespace {

void need(bool fine, const std::string& what) {
  if (!fine) throw std::invalid_argument(what);
}

void need_range(Range range, int64_t n, const char* what) {
  need(0 <= range.first && range.first <= range.last && range.last <= n,
       std::string(what) + " from " + std::to_string(range.first) + " to " +
           std::to_string(range.last) + " were asked for, but there are " + std::to_string(n));
}

void need_height(int64_t height) {
  need(1 <= height && height <= kStripRows,
       "a strip has 1 to " + std::to_string(kStripRows) + " rows, not " + std::to_string(height));
}

void need_same_features(const KernelRows& a, const KernelRows& b) {
  need(a.cols() == b.cols(), "the two sides have " + std::to_string(a.cols()) + " and " +
                                 std::to_string(b.cols()) + " features");
}

// Pieces of a range, each at most `step` long, appended.
void cut(Range range, int64_t step, std::vector<Range>& pieces) {
  for (int64_t first = range.first; first < range.last; first += step) {
    pieces.push_back({first, std::min(first + step, range.last)});
  }
}
std::vector<Range> cut(Range range, int64_t step) {
  std::vector<Range> pieces;
  cut(range, step, pieces);
  return pieces;
}

auto sums(const TileLoops& tiles, const double*) { return tiles.sums_double; }
auto sums(const TileLoops& tiles, const float*) { return tiles.sums_float; }

// Rows of a tile to where they are kept, `stride` apart.
template <class T>
void copy_rows(const TileLoops& tiles, const double* tile, int64_t rows, int64_t cols, T* to,
               int64_t stride) {
  for (int64_t r = 0; r < rows; ++r, tile += kTileCols, to += stride) {
    if constexpr (std::is_same_v<T, float>) {
      tiles.round(tile, cols, to);
    } else {
      std::copy_n(tile, cols, to);
    }
  }
}

// Calls take(row, number of rows, values, stride, whether more rows follow) for the blocks of a
// tile that is kept.
template <class T, class Take>
void visit_rows(Range rows, const T* values, int64_t stride, Take take) {
  for (int64_t row = rows.first; row < rows.last; row += kBlockRows) {
    const bool more = row + 2 * kBlockRows <= rows.last;
    take(row, std::min(kBlockRows, rows.last - row), values, stride, more);
    values += kBlockRows * stride;
  }
}

// Tiles of a strip K[rows, rows.first : n]: first those of its square, which is used once.
struct StripTiles {
  Range rows;
  std::vector<Range> columns;
  std::size_t square;  // tiles of the square

  StripTiles(Range strip_rows, int64_t n) : rows(strip_rows), columns(cut(rows, kTileCols)) {
    square = columns.size();
    cut({rows.last, n}, kTileCols, columns);
  }
  // Where a tile begins in a strip that is kept tile by tile.
  int64_t offset(std::size_t t) const { return rows.size() * (columns[t].first - rows.first); }
};

// Strips whose tiles are computed side by side; together they have at least this many, if there are
// so many: every thread then gets a good number of them.
constexpr std::size_t kBandTiles = 1024;
// Tiles of a block that every thread should have, and the fewest rows of one.
constexpr int64_t kTilesPerThread = 3, kLeastRows = 32;
// Rows whose sums are added up by one thread.
constexpr int64_t kPartRows = 128;

// What tile t of a strip adds to the rows of the strip, and to those of its columns.
struct TileSums {
  double along[kStripRows];
  double across[kTileCols];
};

Range common(Range a, Range b) { return {std::max(a.first, b.first), std::min(a.last, b.last)}; }

// Adds the sums of the tiles of a strip to some rows of y.
void add_sums(const StripTiles& strip, const TileSums* sums, Range part, double* y) {
  const Range along = common(part, strip.rows), across = common(part, {strip.rows.last, part.last});
  for (std::size_t t = 0; t < strip.columns.size(); ++t) {
    for (int64_t r = along.first; r < along.last; ++r) y[r] += sums[t].along[r - strip.rows.first];
  }
  if (across.size() <= 0) return;
  std::size_t t = strip.square + (across.first - strip.rows.last) / kTileCols;
  for (; t < strip.columns.size() && strip.columns[t].first < across.last; ++t) {
    const Range some = common(across, strip.columns[t]);
    const double* from = sums[t].across - strip.columns[t].first;
    for (int64_t j = some.first; j < some.last; ++j) y[j] += from[j];
  }
}

// Adds products with strips to y, band by band. visit(strip, t, context, take) calls take(row,
// number of rows, values, stride, whether more rows follow in memory) for the blocks of a tile in
// order. Every element of y is the sum of what the strips add, in order, so it does not matter
// which of them form a band.
template <class Visit>
void add_products(const std::vector<StripTiles>& strips, const double* x, double* y,
                  const TileLoops& tiles, const std::shared_ptr<Memory>& memory,
                  const Context& context, Visit visit) {
  std::vector<std::pair<std::size_t, std::size_t>> band;  // strip and tile
  for (std::size_t first = 0, last = 0; first < strips.size(); first = last) {
    band.clear();
    std::vector<std::size_t> begin;  // of the strips in the band
    for (; last < strips.size() && (last == first || band.size() < kBandTiles); ++last) {
      begin.push_back(band.size());
      for (std::size_t t = 0; t < strips[last].columns.size(); ++t) band.emplace_back(last, t);
    }
    Buffer<TileSums> sums_of(band.size(), memory);
    context.parallel_for(band.size(), [&](std::size_t i, const Context& c) {
      const auto [s, t] = band[i];
      const StripTiles& strip = strips[s];
      const Range tile = strip.columns[t];
      TileSums& found = sums_of[i];
      double* across = t < strip.square ? nullptr : found.across;
      if (across != nullptr) std::fill_n(across, tile.size(), 0.0);
      visit(s, t, c,
            [&](int64_t row, int64_t count, const auto* values, int64_t stride, bool more) {
              sums(tiles, values)(values, stride, count, tile.size(), more, x + tile.first, x + row,
                                  found.along + (row - strip.rows.first), across);
            });
    });
    const int64_t low = strips[first].rows.first, high = strips[first].columns.back().last;
    const std::vector<Range> parts = cut({low, high}, kPartRows);
    context.parallel_for(parts.size(), [&](std::size_t p, const Context&) {
      const Range part = parts[p];
      for (std::size_t s = first; s < last; ++s) {
        const StripTiles& strip = strips[s];
        if (part.last <= strip.rows.first) continue;
        add_sums(strip, &sums_of[begin[s - first]], part, y);
      }
    });
  }
}

}  // namespace

template <class T>
void kernel_block(const KernelFunction& f, const KernelRows& a, Range ra, const KernelRows& b,
                  Range rb, T* out, int64_t stride, const Context& context) {
  need_same_features(a, b);
  need_range(ra, a.rows(), "rows");
  need_range(rb, b.rows(), "columns");
  // With few tiles they are lower, so that all threads have some; columns are packed more often. A
  // value does not depend on the tile that it is in.
  const std::vector<Range> columns = cut(rb, kTileCols);
  const int64_t tiles = kTilesPerThread * context.threads();
  const int64_t high = ra.size() * static_cast<int64_t>(columns.size()) / tiles / 16 * 16;
  const int64_t height = context.threads() == 1 ? kStripRows : high;
  const std::vector<Range> rows = cut(ra, std::clamp(height, kLeastRows, kStripRows));
  // Threads at work at the same time have different rows: two that are the first to write to a page
  // of memory would both have to prepare it.
  context.parallel_for(rows.size() * columns.size(), [&](std::size_t task, const Context& c) {
    const Range some = rows[task % rows.size()], tile = columns[task / rows.size()];
    TileMaker make(f, a, b, c);
    make(some, tile, [&](int64_t row, int64_t count, const double* values) {
      copy_rows(a.loops().tiles, values, count, tile.size(),
                out + (row - ra.first) * stride + (tile.first - rb.first), stride);
    });
  });
}

void kernel_cross(const KernelFunction& f, const KernelRows& a, const KernelRows& b,
                  const double* coef, double* out, const Context& context) {
  need_same_features(a, b);
  // Tasks are chunks of rows times tiles of columns, so that few rows keep all threads busy too,
  // some of each at a time. The sum of a row is made of the sums over its tiles, in order: it does
  // not depend on the rows beside it.
  constexpr int64_t kBandRows = 16 * kChunkRows;
  constexpr std::size_t kMostTiles = 64;
  const std::vector<Range> columns = cut({0, b.rows()}, kTileCols);
  std::vector<double> part;
  std::fill_n(out, a.rows(), 0.0);
  for (const Range band : cut({0, a.rows()}, kBandRows)) {
    const std::vector<Range> rows = cut(band, kChunkRows);
    const auto height = static_cast<std::size_t>(band.size());
    for (std::size_t first = 0; first < columns.size(); first += kMostTiles) {
      const std::size_t count = std::min(kMostTiles, columns.size() - first);
      part.resize(count * height);
      context.parallel_for(rows.size() * count, [&](std::size_t task, const Context& c) {
        const Range tile = columns[first + task % count];
        double* sums = part.data() + (task % count) * height;
        TileMaker make(f, a, b, c);
        make(rows[task / count], tile, [&](int64_t row, int64_t n, const double* values) {
          a.loops().tiles.sums_double(values, kTileCols, n, tile.size(), false, coef + tile.first,
                                      nullptr, sums + (row - band.first), nullptr);
        });
      });
      context.parallel_for(rows.size(), [&](std::size_t chunk, const Context&) {
        for (std::size_t t = 0; t < count; ++t) {
          const double* sums = part.data() + t * height - band.first;
          for (int64_t r = rows[chunk].first; r < rows[chunk].last; ++r) out[r] += sums[r];
        }
      });
    }
  }
}

template <class T>
KernelStrips<T>::KernelStrips(const KernelFunction& f, const KernelRows& a, int64_t height,
                              const std::vector<bool>& held, const Context& context)
    : f_(f), a_(a), memory_(std::make_shared<Memory>()) {
  need(f.kind != KernelKind::cosine, "kernel 'cosine' is not symmetric");
  need_height(height);
  rows_ = cut({0, a.rows()}, height);
  need(held.size() == rows_.size(), "there are " + std::to_string(rows_.size()) + " strips, but " +
                                        std::to_string(held.size()) + " flags");
  std::vector<StripTiles> strips;
  std::vector<std::pair<std::size_t, std::size_t>> tasks;  // strip and tile
  for (std::size_t s = 0; s < rows_.size(); ++s) {
    strips.emplace_back(rows_[s], a.rows());
    values_.emplace_back();
    if (!held[s]) continue;
    values_[s] = Buffer<T>(rows_[s].size() * (a.rows() - rows_[s].first), memory_);
    for (std::size_t t = 0; t < strips[s].columns.size(); ++t) tasks.emplace_back(s, t);
  }
  context.parallel_for(tasks.size(), [&](std::size_t i, const Context& c) {
    const auto [s, t] = tasks[i];
    const Range tile = strips[s].columns[t];
    T* const out = values_[s].data() + strips[s].offset(t);
    TileMaker make(f_, a_, a_, c);
    make(rows_[s], tile, [&](int64_t row, int64_t count, const double* values) {
      copy_rows(a_.loops().tiles, values, count, tile.size(),
                out + (row - rows_[s].first) * tile.size(), tile.size());
    });
  });
}

template <class T>
void KernelStrips<T>::product(const double* x, double* y, const Context& context) const {
  std::vector<StripTiles> strips;
  for (const Range rows : rows_) strips.emplace_back(rows, a_.rows());
  std::fill_n(y, a_.rows(), 0.0);
  const auto visit = [&](std::size_t s, std::size_t t, const Context& c, auto take) {
    const Range rows = strips[s].rows, tile = strips[s].columns[t];
    if (values_[s].size() > 0) {
      const T* values = values_[s].data() + strips[s].offset(t);
      return visit_rows(rows, values, tile.size(), take);
    }
    TileMaker make(f_, a_, a_, c);
    make(rows, tile, [&](int64_t row, int64_t count, const double* values) {
      if constexpr (std::is_same_v<T, float>) {
        take(row, count, make.rounded(values, count, tile.size()), kTileCols, false);
      } else {
        take(row, count, values, kTileCols, false);
      }
    });
  };
  add_products(strips, x, y, a_.loops().tiles, memory_, context, visit);
}

template <class T>
void symmetric_strip(const T* strip, int64_t stride, Range rows, int64_t n, const double* x,
                     double* y, const Context& context, const SimdLoops& loops) {
  need_range(rows, n, "rows");
  if (rows.size() == 0) return;
  need_height(rows.size());
  const std::vector<StripTiles> strips{StripTiles(rows, n)};
  const auto visit = [&](std::size_t, std::size_t t, const Context&, auto take) {
    visit_rows(rows, strip + (strips[0].columns[t].first - rows.first), stride, take);
  };
  add_products(strips, x, y, loops.tiles, std::make_shared<Memory>(), context, visit);
}

#define RANKSVM_KERNEL_MATRIX(T)                                                                 \
  template void kernel_block(const KernelFunction&, const KernelRows&, Range, const KernelRows&, \
                             Range, T*, int64_t, const Context&);                                \
  template void symmetric_strip(const T*, int64_t, Range, int64_t, const double*, double*,       \
                                const Context&, const SimdLoops&);                               \
  template class KernelStrips<T>;
RANKSVM_KERNEL_MATRIX(float)
RANKSVM_KERNEL_MATRIX(double)
#undef RANKSVM_KERNEL_MATRIX

}  // namespace ranksvm
