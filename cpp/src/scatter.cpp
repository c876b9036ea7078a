#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "ranksvm/products.hpp"
#include "ranksvm/simd.hpp"
#include "ranksvm/vectors.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kMostRows = 64;    // rows gathered at a time
constexpr int64_t kMostPieces = 32;  // partial matrices
constexpr int64_t kPiece = 4096;     // rows hashed at a time

// The inner loops for the type of the features.
auto add_rows(const SimdLoops& loops, const double*) { return loops.add_rows_double; }
auto add_rows(const SimdLoops& loops, const float*) { return loops.add_rows_float; }
auto deviations(const SimdLoops& loops, const double*) { return loops.deviations_double; }
auto deviations(const SimdLoops& loops, const float*) { return loops.deviations_float; }

// Hash of a row from up to sixteen of its features.
template <class T>
uint64_t hash_row(const Strided<T>& a, int64_t row) {
  const T* x = a.data + row * a.row_stride;
  const int64_t step = (a.cols + 15) / 16;
  uint64_t hash = 0;
  for (int64_t c = 0; c < a.cols; c += step) {
    hash = mix_hash(hash ^ std::bit_cast<uint64_t>(static_cast<double>(x[c * a.col_stride])));
  }
  return hash;
}

// Positions in `rows` of those with a chosen hash, ascending.
template <class T>
std::vector<int64_t> chosen_rows(const Strided<T>& a, const int64_t* rows, int64_t n, int64_t step,
                                 const Context& context) {
  const auto pieces = static_cast<std::size_t>((n + kPiece - 1) / kPiece);
  std::vector<std::vector<int64_t>> found(pieces);
  context.parallel_for(pieces, [&](std::size_t piece, const Context&) {
    const int64_t begin = static_cast<int64_t>(piece) * kPiece, end = std::min(n, begin + kPiece);
    for (int64_t k = begin; k < end; ++k) {
      if (hash_row(a, rows[k]) % step == 0) found[piece].push_back(k);
    }
  });
  std::vector<int64_t> all;
  for (const auto& some : found) all.insert(all.end(), some.begin(), some.end());
  return all;
}

// The same for whole groups.
template <class T>
std::vector<int64_t> chosen_groups(const Strided<T>& a, const int64_t* rows, const int64_t* offsets,
                                   int64_t groups, int64_t step, const Context& context) {
  constexpr int64_t kGroups = 64;
  std::vector<uint8_t> is_chosen(groups);
  const auto pieces = static_cast<std::size_t>((groups + kGroups - 1) / kGroups);
  context.parallel_for(pieces, [&](std::size_t piece, const Context&) {
    const int64_t first = static_cast<int64_t>(piece) * kGroups;
    for (int64_t g = first; g < std::min(groups, first + kGroups); ++g) {
      uint64_t hash = 0;
      for (int64_t k = offsets[g]; k < offsets[g + 1]; ++k) {
        hash = std::max(hash, hash_row(a, rows[k]));
      }
      is_chosen[g] = mix_hash(hash) % step == 0;
    }
  });
  std::vector<int64_t> all;
  for (int64_t g = 0; g < groups; ++g) {
    if (!is_chosen[g]) continue;
    for (int64_t k = offsets[g]; k < offsets[g + 1]; ++k) all.push_back(k);
  }
  return all;
}

}  // namespace

uint64_t mix_hash(uint64_t x) {  // the finaliser of MurmurHash3
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

template <class T>
void hash_rows(const Strided<T>& a, uint64_t* out, const Context& context) {
  const auto pieces = static_cast<std::size_t>((a.rows + kPiece - 1) / kPiece);
  context.parallel_for(pieces, [&](std::size_t piece, const Context&) {
    const int64_t begin = static_cast<int64_t>(piece) * kPiece;
    const int64_t end = std::min(a.rows, begin + kPiece);
    for (int64_t row = begin; row < end; ++row) out[row] = hash_row(a, row);
  });
}

template <class T>
RowSample sample_rows(const Strided<T>& a, const int64_t* rows, const int64_t* offsets,
                      int64_t groups, int64_t step, bool by_group, const Context& context) {
  const int64_t total = offsets[groups];
  std::vector<int64_t> chosen;
  if (step > 1) {
    chosen = by_group ? chosen_groups(a, rows, offsets, groups, step, context)
                      : chosen_rows(a, rows, total, step, context);
  }
  const auto size = static_cast<int64_t>(chosen.size());
  if (step == 1 || size < total / (4 * step) || size > 4 * (total / step)) {
    // Or rows that are mostly alike, which the hash cannot tell apart.
    return {{rows, rows + total}, {offsets, offsets + groups + 1}};
  }
  RowSample sample;
  sample.offsets.reserve(groups + 1);
  auto at = chosen.begin();
  for (int64_t g = 0; g <= groups; ++g) {
    at = std::lower_bound(at, chosen.end(), offsets[g]);
    sample.offsets.push_back(at - chosen.begin());
  }
  for (int64_t& k : chosen) k = rows[k];
  sample.rows = std::move(chosen);
  return sample;
}

template <class T>
void scatter(const Strided<T>& a, const double* weight, const RowsInGroups& sample, double* out,
             const Context& context) {
  const auto cols = static_cast<unsigned>(a.cols);
  const unsigned width = (cols + 7) / 8 * 8;
  const int64_t groups = sample.groups;
  const int64_t *chosen = sample.rows, *ends = sample.offsets;
  const int64_t size = ends[groups];
  // A few milliseconds of work are done before other threads have woken up.
  const bool small = static_cast<double>(size) * width * width < 1e7;
  // Pieces of groups or, when there are few groups, of the rows of each.
  const int64_t most = small ? 1 : kMostPieces;
  const int64_t group_pieces = std::clamp<int64_t>(groups / 8, 1, most);
  const int64_t row_pieces = most / group_pieces;
  std::vector<std::vector<double>> part(group_pieces * row_pieces);

  const SimdLoops& loops = simd_loops();
  // The features of a row, in one piece as the loops want them.
  const auto features = [&](int64_t row, std::vector<T>& line) {
    const T* x = a.data + row * a.row_stride;
    if (a.col_stride == 1) return x;
    line.resize(cols);
    for (unsigned c = 0; c < cols; ++c) line[c] = x[c * a.col_stride];
    return static_cast<const T*>(line.data());
  };
  // Number of rows from chosen[k] on that follow each other in memory, before chosen[end].
  const auto rows_together = [&](int64_t k, int64_t end) {
    int64_t count = 1;
    while (a.col_stride == 1 && k + count < end && chosen[k + count] == chosen[k] + count) ++count;
    return count;
  };
  // The weighted mean of a group; returns the weight of the group.
  const auto find_mean = [&](int64_t g, double* mean, std::vector<T>& line) {
    std::fill_n(mean, width, 0.0);
    double total = 0.0;
    for (int64_t k = ends[g], count = 0; k < ends[g + 1]; k += count) {
      const double* own = weight + chosen[k];
      count = rows_together(k, ends[g + 1]);
      for (int64_t r = 0; r < count; ++r) total += own[r];
      add_rows(loops, a.data)(features(chosen[k], line), count, cols, a.row_stride, own, mean);
    }
    for (unsigned c = 0; c < cols && total > 0.0; ++c) mean[c] /= total;
    return total;
  };
  // Of few groups, whose rows go to several pieces, the means are found once.
  std::vector<double> means(row_pieces > 1 ? groups * width : 0), totals(groups);
  if (row_pieces > 1) {
    std::vector<T> line;
    for (int64_t g = 0; g < groups; ++g) totals[g] = find_mean(g, means.data() + g * width, line);
  }
  int64_t height = 1;  // rows that are gathered at most
  for (int64_t g = 0; g < groups; ++g) height = std::max(height, ends[g + 1] - ends[g]);
  height = std::min(height, kMostRows);

  const Context& team = small ? context.one_thread() : context;
  team.parallel_for(part.size(), [&](std::size_t index, const Context& inner) {
    const int64_t p = static_cast<int64_t>(index) / row_pieces;
    const int64_t row_piece = static_cast<int64_t>(index) % row_pieces;
    std::vector<double>& gram = part[index];
    gram.assign(static_cast<std::size_t>(width) * width, 0.0);
    std::vector<double> own(width, 0.0), left(height * width, 0.0), right(height * width, 0.0);
    std::vector<T> line;
    for (int64_t g = groups * p / group_pieces; g < groups * (p + 1) / group_pieces; ++g) {
      inner.check_interrupt();
      const double* mean = row_pieces > 1 ? means.data() + g * width : own.data();
      const double total = row_pieces > 1 ? totals[g] : find_mean(g, own.data(), line);
      if (!(total > 0.0)) continue;
      const int64_t begin = ends[g], length = ends[g + 1] - begin;
      const int64_t to = begin + length * (row_piece + 1) / row_pieces;
      int64_t filled = 0, count = 0;
      for (int64_t k = begin + length * row_piece / row_pieces; k < to; k += count) {
        const int64_t row = chosen[k];
        count = rows_together(k, std::min(to, k + kMostRows - filled));
        deviations(loops, a.data)(features(row, line), count, cols, a.row_stride, mean,
                                  weight + row, width, right.data() + filled * width,
                                  left.data() + filled * width);
        filled += count;
        if (filled == kMostRows || k + count == to) {
          loops.add_gram(left.data(), right.data(), static_cast<unsigned>(filled), width,
                         gram.data());
          filled = 0;
        }
      }
    }
  });

  double scale = 1.0;
  if (size < a.rows) {  // a sample, which stands for all rows
    double held = 0.0;
    for (int64_t k = 0; k < size; ++k) held += weight[chosen[k]];
    scale = held > 0.0 ? sum(weight, a.rows, context) / held : 0.0;
  }
  // The upper triangle, then its mirror image: a row of each part at a time.
  team.parallel_for(cols, [&](std::size_t i, const Context&) {
    double* line = out + i * cols;
    std::fill(line + i, line + cols, 0.0);
    for (const std::vector<double>& gram : part) {
      const double* from = gram.data() + i * width;
      for (std::size_t j = i; j < cols; ++j) line[j] += from[j];
    }
    for (std::size_t j = i; j < cols; ++j) line[j] *= scale;
  });
  team.parallel_for(cols, [&](std::size_t i, const Context&) {
    for (std::size_t j = 0; j < i; ++j) out[i * cols + j] = out[j * cols + i];
  });
}

#define RANKSVM_SCATTER(T)                                                                   \
  template void hash_rows(const Strided<T>&, uint64_t*, const Context&);                     \
  template RowSample sample_rows(const Strided<T>&, const int64_t*, const int64_t*, int64_t, \
                                 int64_t, bool, const Context&);                             \
  template void scatter(const Strided<T>&, const double*, const RowsInGroups&, double*,      \
                        const Context&);
RANKSVM_SCATTER(float)
RANKSVM_SCATTER(double)
#undef RANKSVM_SCATTER

}  // namespace ranksvm
