#include "ranksvm/kernel_matrix.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
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

// Symmetric product with a strip: visit(columns, context, take) calls take(row, number of rows,
// values, stride, whether more rows follow in memory) for the blocks of a tile in order.
template <class Visit>
void product_with_strip(Range rows, int64_t n, const double* x, double* y, const TileLoops& tiles,
                        const Context& context, Visit visit) {
  std::vector<Range> columns = cut(rows, kTileCols);  // the square, which is used once
  const std::size_t diagonal = columns.size();
  cut({rows.last, n}, kTileCols, columns);
  const auto height = static_cast<std::size_t>(rows.size());
  std::vector<double> part(columns.size() * height);
  context.parallel_for(columns.size(), [&](std::size_t t, const Context& c) {
    const Range tile = columns[t];
    visit(tile, c, [&](int64_t row, int64_t count, const auto* values, int64_t stride, bool ahead) {
      sums(tiles, values)(values, stride, count, tile.size(), ahead, x + tile.first, x + row,
                          part.data() + t * height + (row - rows.first),
                          t < diagonal ? nullptr : y + tile.first);
    });
  });
  for (std::size_t t = 0; t < columns.size(); ++t) {
    for (std::size_t r = 0; r < height; ++r) y[rows.first + r] += part[t * height + r];
  }
}

}  // namespace

template <class T>
void kernel_block(const KernelFunction& f, const KernelRows& a, Range ra, const KernelRows& b,
                  Range rb, T* out, int64_t stride, const Context& context) {
  need_same_features(a, b);
  need_range(ra, a.rows(), "rows");
  need_range(rb, b.rows(), "columns");
  const std::vector<Range> rows = cut(ra, kStripRows), columns = cut(rb, kTileCols);
  context.parallel_for(rows.size() * columns.size(), [&](std::size_t task, const Context& c) {
    const Range some = rows[task / columns.size()], tile = columns[task % columns.size()];
    TileMaker make(f, a, b, c);
    make(some, tile, [&](int64_t row, int64_t count, const double* values) {
      for (int64_t r = 0; r < count; ++r) {
        const double* from = values + r * kTileCols;
        T* to = out + (row + r - ra.first) * stride + (tile.first - rb.first);
        if constexpr (std::is_same_v<T, float>) {
          a.loops().tiles.round(from, tile.size(), to);
        } else {
          std::copy_n(from, tile.size(), to);
        }
      }
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
      for (std::size_t t = 0; t < count; ++t) {
        for (std::size_t r = 0; r < height; ++r) out[band.first + r] += part[t * height + r];
      }
    }
  }
}

void kernel_strip(const KernelFunction& f, const KernelRows& a, Range rows, bool single,
                  const double* x, double* y, const Context& context) {
  need_range(rows, a.rows(), "rows");
  need(f.kind != KernelKind::cosine, "kernel 'cosine' is not symmetric");
  const auto visit = [&](Range tile, const Context& c, auto take) {
    TileMaker make(f, a, a, c);
    make(rows, tile, [&](int64_t row, int64_t count, const double* values) {
      if (!single) return take(row, count, values, kTileCols, false);
      take(row, count, make.rounded(values, count, tile.size()), kTileCols, false);
    });
  };
  product_with_strip(rows, a.rows(), x, y, a.loops().tiles, context, visit);
}

template <class T>
void symmetric_strip(const T* strip, int64_t stride, Range rows, int64_t n, const double* x,
                     double* y, const Context& context, const SimdLoops& loops) {
  need_range(rows, n, "rows");
  const auto visit = [&](Range tile, const Context&, auto take) {
    for (int64_t row = rows.first; row < rows.last; row += kBlockRows) {
      const T* values = strip + (row - rows.first) * stride + (tile.first - rows.first);
      const bool more = row + 2 * kBlockRows <= rows.last;
      take(row, std::min(kBlockRows, rows.last - row), values, stride, more);
    }
  };
  product_with_strip(rows, n, x, y, loops.tiles, context, visit);
}

#define RANKSVM_KERNEL_MATRIX(T)                                                                 \
  template void kernel_block(const KernelFunction&, const KernelRows&, Range, const KernelRows&, \
                             Range, T*, int64_t, const Context&);                                \
  template void symmetric_strip(const T*, int64_t, Range, int64_t, const double*, double*,       \
                                const Context&, const SimdLoops&);
RANKSVM_KERNEL_MATRIX(float)
RANKSVM_KERNEL_MATRIX(double)
#undef RANKSVM_KERNEL_MATRIX

}  // namespace ranksvm
