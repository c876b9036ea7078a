#include <algorithm>
#include <vector>

#include "ranksvm/kernels.hpp"
#include "ranksvm/products.hpp"

namespace ranksvm {
namespace {

constexpr unsigned kRows = 64;      // rows gathered at a time
constexpr int64_t kMostParts = 16;  // partial matrices

}  // namespace

template <class T>
void scatter(const Strided<T>& a, const double* weight, const int64_t* rows, const int64_t* offsets,
             int64_t groups, int64_t group_step, int64_t row_step, double* out,
             const Context& context) {
  const auto cols = static_cast<unsigned>(a.cols);
  const unsigned width = (cols + 7) / 8 * 8;
  const int64_t taken = (groups + group_step - 1) / group_step;
  // One part per stretch of groups or, when there are few groups, of the rows of each.
  const int64_t parts = std::clamp<int64_t>(taken / 8, 1, kMostParts);
  const int64_t stretches = taken >= 8 * kMostParts ? 1 : kMostParts;
  std::vector<std::vector<double>> part(parts * stretches);
  std::vector<double> held(parts * stretches, 0.0);

  auto mean_of = [&](int64_t first, int64_t last, std::vector<double>& mean) {
    std::fill(mean.begin(), mean.end(), 0.0);
    double total = 0.0;
    for (int64_t k = first; k < last; k += row_step) {
      const double w = weight[rows[k]];
      if (w == 0.0) continue;
      const T* x = a.data + rows[k] * a.row_stride;
      total += w;
      for (unsigned c = 0; c < cols; ++c) mean[c] += w * static_cast<double>(x[c * a.col_stride]);
    }
    if (total > 0.0) {
      for (unsigned c = 0; c < cols; ++c) mean[c] /= total;
    }
    return total;
  };

  context.parallel_for(part.size(), [&](std::size_t index, const Context& inner) {
    const int64_t p = static_cast<int64_t>(index) / stretches;
    const int64_t stretch = static_cast<int64_t>(index) % stretches;
    std::vector<double>& gram = part[index];
    gram.assign(static_cast<std::size_t>(width) * width, 0.0);
    std::vector<double> mean(width, 0.0), left(kRows * width, 0.0), right(kRows * width, 0.0);
    for (int64_t t = taken * p / parts; t < taken * (p + 1) / parts; ++t) {
      inner.checkpoint();
      const int64_t begin = offsets[t * group_step], end = offsets[t * group_step + 1];
      const double total = mean_of(begin, end, mean);
      if (!(total > 0.0)) continue;
      if (stretch == 0) held[index] += total;
      const int64_t steps = (end - begin + row_step - 1) / row_step;
      const int64_t from = steps * stretch / stretches, to = steps * (stretch + 1) / stretches;
      unsigned filled = 0;
      for (int64_t k = from; k < to; ++k) {
        const int64_t row = rows[begin + k * row_step];
        const T* x = a.data + row * a.row_stride;
        double *l = left.data() + filled * width, *r = right.data() + filled * width;
        for (unsigned c = 0; c < cols; ++c) {
          r[c] = static_cast<double>(x[c * a.col_stride]) - mean[c];
          l[c] = weight[row] * r[c];
        }
        if (++filled == kRows || k + 1 == to) {
          kernels().add_gram(left.data(), right.data(), filled, width, gram.data());
          filled = 0;
        }
      }
    }
  });

  double total = 0.0, sampled = 0.0;
  for (int64_t k = 0; k < offsets[groups]; ++k) total += weight[rows[k]];
  for (const double h : held) sampled += h;
  const double scale = sampled > 0.0 ? total / sampled : 0.0;
  for (unsigned i = 0; i < cols; ++i) {
    for (unsigned j = i; j < cols; ++j) {
      double sum = 0.0;
      for (const std::vector<double>& gram : part) sum += gram[i * width + j];
      out[i * cols + j] = out[j * cols + i] = scale * sum;
    }
  }
}

template void scatter(const Strided<float>&, const double*, const int64_t*, const int64_t*, int64_t,
                      int64_t, int64_t, double*, const Context&);
template void scatter(const Strided<double>&, const double*, const int64_t*, const int64_t*,
                      int64_t, int64_t, int64_t, double*, const Context&);

}  // namespace ranksvm
