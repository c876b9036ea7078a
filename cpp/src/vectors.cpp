#include "ranksvm/vectors.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
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

// Sum of term(0) .. term(n - 1). A term takes 65 additions in a block of 512 with eight running
// sums, 3 of these sums, 5 of the blocks of a piece, and one for every time that the number of
// pieces can be halved.
template <class Term>
double add_up(int64_t n, const Context& context, Term term) {
  constexpr int64_t kBlock = 512;
  std::vector<double> pieces(static_cast<std::size_t>((n + kPiece - 1) / kPiece));
  for_each_piece(n, context, [&](std::size_t piece, int64_t begin, int64_t end) {
    std::vector<double> blocks;
    blocks.reserve(kPiece / kBlock);
    for (int64_t i = begin; i < end;) {
      double s[8] = {};
      const int64_t stop = std::min(i + kBlock, end);
      for (; i + 8 <= stop; i += 8) {
        for (int k = 0; k < 8; ++k) s[k] += term(i + k);
      }
      for (int k = 0; i < stop; ++i, ++k) s[k] += term(i);
      blocks.push_back(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
    }
    pieces[piece] = pairwise(blocks);
  });
  return pairwise(pieces);
}

}  // namespace

double dot(const double* u, const double* v, int64_t n, const Context& context) {
  return add_up(n, context, [=](int64_t i) { return u[i] * v[i]; });
}

double sum(const double* v, int64_t n, const Context& context) {
  return add_up(n, context, [=](int64_t i) { return v[i]; });
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

}  // namespace ranksvm
