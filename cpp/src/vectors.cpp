#include "ranksvm/vectors.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace ranksvm {
namespace {

constexpr int64_t kPiece = int64_t{1} << 14;
// Shorter vectors are done before other threads have woken up.
constexpr int64_t kWorthThreads = int64_t{1} << 16;

// body(piece, begin, end) for the pieces of [0, n).
template <class Body>
void for_each_piece(int64_t n, const Context& context, Body body) {
  const auto run = [&](std::size_t piece, const Context&) {
    const int64_t begin = static_cast<int64_t>(piece) * kPiece;
    body(piece, begin, std::min(n, begin + kPiece));
  };
  const auto pieces = static_cast<std::size_t>((n + kPiece - 1) / kPiece);
  (n < kWorthThreads ? context.one_thread() : context).parallel_for(pieces, run);
}

// Adds neighbours, then neighbours of these, and so on.
double pairwise(std::vector<double>& terms) {
  for (std::size_t n = terms.size(); n > 1; n = (n + 1) / 2) {
    for (std::size_t i = 0; i < n / 2; ++i) terms[i] = terms[2 * i] + terms[2 * i + 1];
    if (n % 2 == 1) terms[n / 2] = terms[n - 1];
  }
  return terms.empty() ? 0.0 : terms[0];
}

// Sums of term(0)[k] .. term(n - 1)[k], for several k at once. A term takes 65 additions in a block
// of 512 with eight running sums, 3 of these sums, 5 of the blocks of a piece, and one for every
// time that the number of pieces can be halved.
template <std::size_t sums, class Term>
std::array<double, sums> add_up(int64_t n, const Context& context, Term term) {
  constexpr int64_t kBlock = 512;
  const auto n_pieces = static_cast<std::size_t>((n + kPiece - 1) / kPiece);
  std::array<std::vector<double>, sums> pieces;
  for (auto& one : pieces) one.resize(n_pieces);
  for_each_piece(n, context, [&](std::size_t piece, int64_t begin, int64_t end) {
    std::array<std::vector<double>, sums> blocks;
    for (auto& one : blocks) one.reserve(kPiece / kBlock);
    for (int64_t i = begin; i < end;) {
      double s[sums][8] = {};
      const int64_t stop = std::min(i + kBlock, end);
      const auto add = [&](int64_t at, int k) {
        const std::array<double, sums> terms = term(at);
        for (std::size_t j = 0; j < sums; ++j) s[j][k] += terms[j];
      };
      for (; i + 8 <= stop; i += 8) {
        for (int k = 0; k < 8; ++k) add(i + k, k);
      }
      for (int k = 0; i < stop; ++i, ++k) add(i, k);
      for (std::size_t j = 0; j < sums; ++j) {
        const double* const one = s[j];
        blocks[j].push_back(((one[0] + one[1]) + (one[2] + one[3])) +
                            ((one[4] + one[5]) + (one[6] + one[7])));
      }
    }
    for (std::size_t j = 0; j < sums; ++j) pieces[j][piece] = pairwise(blocks[j]);
  });
  std::array<double, sums> found{};
  for (std::size_t j = 0; j < sums; ++j) found[j] = pairwise(pieces[j]);
  return found;
}

// A piece of a combination of a known number of vectors: one pass, sums in registers.
template <std::size_t count>
void combine_piece(const double* t, const double* const* v, int64_t begin, int64_t end,
                   double* out) {
  const double* from[count];
  double factor[count];
  std::copy_n(v, count, from);
  std::copy_n(t, count, factor);
  for (int64_t i = begin; i < end; ++i) {
    double sum = factor[0] * from[0][i];
    for (std::size_t k = 1; k < count; ++k) sum += factor[k] * from[k][i];
    out[i] = sum;
  }
}

}  // namespace

double dot(const double* u, const double* v, int64_t n, const Context& context) {
  return add_up<1>(n, context, [=](int64_t i) { return std::array{u[i] * v[i]}; })[0];
}

double sum(const double* v, int64_t n, const Context& context) {
  return add_up<1>(n, context, [=](int64_t i) { return std::array{v[i]}; })[0];
}

void add_scaled(const double* u, double t, const double* v, int64_t n, double* out,
                const Context& context) {
  for_each_piece(n, context, [&](std::size_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = u[i] + t * v[i];
  });
}

void scale(double t, const double* v, int64_t n, double* out, const Context& context) {
  for_each_piece(n, context, [&](std::size_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = t * v[i];
  });
}

void combine(const double* t, const double* const* v, std::size_t n_vectors, int64_t n, double* out,
             const Context& context) {
  constexpr decltype(&combine_piece<1>) kPieces[] = {
      combine_piece<1>, combine_piece<2>, combine_piece<3>, combine_piece<4>,
      combine_piece<5>, combine_piece<6>, combine_piece<7>, combine_piece<8>};
  constexpr std::size_t kMost = std::size(kPieces);
  for_each_piece(n, context, [&](std::size_t, int64_t begin, int64_t end) {
    const std::size_t first = std::min(n_vectors, kMost);
    if (first == 0) return std::fill(out + begin, out + end, 0.0);
    kPieces[first - 1](t, v, begin, end, out);
    for (std::size_t k = first; k < n_vectors; ++k) {
      for (int64_t i = begin; i < end; ++i) out[i] += t[k] * v[k][i];
    }
  });
}

std::pair<double, double> power_sums(const double* u, const double* c, double t, double* v,
                                     int64_t n, const Context& context) {
  const auto [tilt, square] = add_up<2>(n, context, [=](int64_t i) {
    const std::array<double, 2> terms = {u[i] * c[i], c[i] * v[i]};
    v[i] = 2.0 * (v[i] + t * u[i]);
    return terms;
  });
  return {tilt, square};
}

bool any_nonzero(const double* v, int64_t n) {
  return std::any_of(v, v + n, [](double one) { return one != 0.0; });
}

template <class T>
bool all_finite(const T* v, int64_t n, const Context& context) {
  std::atomic<bool> finite{true};
  for_each_piece(n, context, [&](std::size_t, int64_t begin, int64_t end) {
    if (!finite.load(std::memory_order_relaxed)) return;
    T check[8] = {};  // NaN as soon as one element is not finite
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      for (int k = 0; k < 8; ++k) check[k] += v[i + k] * T{0};
    }
    for (; i < end; ++i) check[0] += v[i] * T{0};
    for (const T one : check) {
      if (one != T{0}) finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load();
}

template bool all_finite(const float*, int64_t, const Context&);
template bool all_finite(const double*, int64_t, const Context&);

template <class I>
bool all_indices(const I* v, int64_t n, int64_t size, const Context& context) {
  std::atomic<bool> inside{true};
  for_each_piece(n, context, [&](std::size_t, int64_t begin, int64_t end) {
    if (!inside.load(std::memory_order_relaxed)) return;
    std::make_unsigned_t<I> highest = 0;  // a negative one looks huge
    for (int64_t i = begin; i < end; ++i) {
      highest = std::max(highest, static_cast<std::make_unsigned_t<I>>(v[i]));
    }
    if (begin < end && highest >= static_cast<uint64_t>(size)) {
      inside.store(false, std::memory_order_relaxed);
    }
  });
  return inside.load();
}

template bool all_indices(const int32_t*, int64_t, int64_t, const Context&);
template bool all_indices(const int64_t*, int64_t, int64_t, const Context&);

}  // namespace ranksvm
