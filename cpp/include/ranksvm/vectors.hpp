// Operations on long vectors. Sums are cut by the length of the vectors alone, so every thread
// count gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ranksvm/parallel.hpp"

namespace ranksvm {

// The inner product; a term is rounded at most kDotDepth times.
constexpr int kDotDepth = 128;
double dot(const double* u, const double* v, int64_t n, const Context& context);
double sum(const double* v, int64_t n, const Context& context);
// out = u + t v, rounded after the product and after the sum; out may be u.
void add_scaled(const double* u, double t, const double* v, int64_t n, double* out,
                const Context& context);
// out = t[0] v[0] + t[1] v[1] + ..., added from the left; every product and every sum is rounded.
void combine(const double* t, const double* const* v, std::size_t n_vectors, int64_t n, double* out,
             const Context& context);
// out = t v; out may be v.
void scale(double t, const double* v, int64_t n, double* out, const Context& context);
// The sums of violated pairs from u and v, and their gradient, in one pass: returns <u, c> and
// <c, v>, with the bits of dot, and replaces v by 2 (v + t u).
std::pair<double, double> power_sums(const double* u, const double* c, double t, double* v,
                                     int64_t n, const Context& context);
// Whether v is not zero; fast if one of the first elements is not.
bool any_nonzero(const double* v, int64_t n);
// Whether no element is NaN or infinite.
template <class T>
bool all_finite(const T* v, int64_t n, const Context& context);

// Whether all of them are from 0 to size - 1.
template <class I>
bool all_indices(const I* v, int64_t n, int64_t size, const Context& context);

}  // namespace ranksvm
