#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "ranksvm/products.hpp"
#include "ranksvm/simd.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kMostRows = 64;    // rows gathered at a time
constexpr int64_t kMostPieces = 16;  // partial matrices

// sum[c] += weight * x[c]
void add_row(const SimdLoops& loops, const double* x, unsigned n, double weight, double* sum) {
  loops.add_rows_double(x, 1, n, n, &weight, sum);
}
void add_row(const SimdLoops& loops, const float* x, unsigned n, double weight, double* sum) {
  loops.add_rows_float(x, 1, n, n, &weight, sum);
}
void deviations(const SimdLoops& loops, const double* x, const double* mean, double weight,
                unsigned n, double* off, double* weighted) {
  loops.deviations_double(x, mean, weight, n, off, weighted);
}
void deviations(const SimdLoops& loops, const float* x, const double* mean, double weight,
                unsigned n, double* off, double* weighted) {
  loops.deviations_float(x, mean, weight, n, off, weighted);
}

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

// The sampled rows, group by group; group g has those from ends[g] to ends[g + 1].
template <class T>
std::vector<int64_t> sample(const Strided<T>& a, const int64_t* rows, const int64_t* offsets,
                            int64_t groups, int64_t step, bool by_group,
                            std::vector<int64_t>& ends) {
  const int64_t total = offsets[groups];
  std::vector<int64_t> chosen;
  ends.assign(1, 0);
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = offsets[g], end = offsets[g + 1];
    if (step == 1) {
      chosen.insert(chosen.end(), rows + begin, rows + end);
    } else if (by_group) {
      uint64_t hash = 0;
      for (int64_t k = begin; k < end; ++k) hash = std::max(hash, hash_row(a, rows[k]));
      if (mix_hash(hash) % step == 0) chosen.insert(chosen.end(), rows + begin, rows + end);
    } else {
      for (int64_t k = begin; k < end; ++k) {
        if (hash_row(a, rows[k]) % step == 0) chosen.push_back(rows[k]);
      }
    }
    ends.push_back(static_cast<int64_t>(chosen.size()));
  }
  const auto size = static_cast<int64_t>(chosen.size());
  if (step > 1 && (size < total / (4 * step) || size > 4 * (total / step))) {
    // Rows that are mostly alike: the hash cannot tell them apart.
    return sample(a, rows, offsets, groups, 1, by_group, ends);
  }
  return chosen;
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
  constexpr int64_t kPiece = 4096;
  const auto pieces = static_cast<std::size_t>((a.rows + kPiece - 1) / kPiece);
  context.parallel_for(pieces, [&](std::size_t piece, const Context&) {
    const int64_t begin = static_cast<int64_t>(piece) * kPiece;
    const int64_t end = std::min(a.rows, begin + kPiece);
    for (int64_t row = begin; row < end; ++row) out[row] = hash_row(a, row);
  });
}

template void hash_rows(const Strided<float>&, uint64_t*, const Context&);
template void hash_rows(const Strided<double>&, uint64_t*, const Context&);

template <class T>
void scatter(const Strided<T>& a, const double* weight, const int64_t* rows, const int64_t* offsets,
             int64_t groups, int64_t step, bool by_group, double* out, const Context& context) {
  const auto cols = static_cast<unsigned>(a.cols);
  const unsigned width = (cols + 7) / 8 * 8;
  std::vector<int64_t> ends;
  const std::vector<int64_t> chosen = sample(a, rows, offsets, groups, step, by_group, ends);
  // Pieces of groups or, when there are few groups, of the rows of each.
  const int64_t group_pieces = std::clamp<int64_t>(groups / 8, 1, kMostPieces);
  const int64_t row_pieces = kMostPieces / group_pieces;
  std::vector<std::vector<double>> part(group_pieces * row_pieces);

  int64_t height = 1;  // rows that are gathered at most
  for (int64_t g = 0; g < groups; ++g) height = std::max(height, ends[g + 1] - ends[g]);
  height = std::min(height, kMostRows);

  // A few milliseconds of work are done before other threads have woken up.
  const bool small = static_cast<double>(chosen.size()) * width * width < 1e7;
  const Context& team = small ? context.one_thread() : context;
  team.parallel_for(part.size(), [&](std::size_t index, const Context& inner) {
    const int64_t p = static_cast<int64_t>(index) / row_pieces;
    const int64_t row_piece = static_cast<int64_t>(index) % row_pieces;
    std::vector<double>& gram = part[index];
    gram.assign(static_cast<std::size_t>(width) * width, 0.0);
    std::vector<double> mean(width, 0.0), left(height * width, 0.0), right(height * width, 0.0);
    std::vector<T> line(a.col_stride == 1 ? 0 : cols);
    const SimdLoops& loops = simd_loops();
    const auto features = [&](int64_t row) {  // contiguous, as the loops want them
      const T* x = a.data + row * a.row_stride;
      if (a.col_stride == 1) return x;
      for (unsigned c = 0; c < cols; ++c) line[c] = x[c * a.col_stride];
      return static_cast<const T*>(line.data());
    };
    for (int64_t g = groups * p / group_pieces; g < groups * (p + 1) / group_pieces; ++g) {
      inner.check_interrupt();
      const int64_t begin = ends[g], size = ends[g + 1] - begin;
      std::fill(mean.begin(), mean.end(), 0.0);
      double total = 0.0;
      for (int64_t k = begin; k < begin + size; ++k) {
        const double w = weight[chosen[k]];
        const T* x = features(chosen[k]);
        total += w;
        add_row(loops, x, cols, w, mean.data());
      }
      if (!(total > 0.0)) continue;
      for (unsigned c = 0; c < cols; ++c) mean[c] /= total;
      const int64_t from = size * row_piece / row_pieces, to = size * (row_piece + 1) / row_pieces;
      int64_t filled = 0;
      for (int64_t k = from; k < to; ++k) {
        const int64_t row = chosen[begin + k];
        const T* x = features(row);
        deviations(loops, x, mean.data(), weight[row], cols, right.data() + filled * width,
                   left.data() + filled * width);
        if (++filled == kMostRows || k + 1 == to) {
          loops.add_gram(left.data(), right.data(), static_cast<unsigned>(filled), width,
                         gram.data());
          filled = 0;
        }
      }
    }
  });

  double total = 0.0, held = 0.0;
  for (int64_t k = 0; k < offsets[groups]; ++k) total += weight[rows[k]];
  for (const int64_t row : chosen) held += weight[row];
  const double scale = held > 0.0 ? total / held : 0.0;
  for (unsigned i = 0; i < cols; ++i) {
    for (unsigned j = i; j < cols; ++j) {
      double sum = 0.0;
      for (const std::vector<double>& gram : part) sum += gram[i * width + j];
      out[i * cols + j] = out[j * cols + i] = scale * sum;
    }
  }
}

template void scatter(const Strided<float>&, const double*, const int64_t*, const int64_t*, int64_t,
                      int64_t, bool, double*, const Context&);
template void scatter(const Strided<double>&, const double*, const int64_t*, const int64_t*,
                      int64_t, int64_t, bool, double*, const Context&);

}  // namespace ranksvm
