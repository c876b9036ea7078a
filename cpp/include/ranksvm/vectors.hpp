// Operations on long vectors. Sums are cut by the length of the vectors alone, so every thread
// count gives the same bits.
#pragma once

#include <cstdint>

#include "ranksvm/parallel.hpp"

namespace ranksvm {

// The inner product; a term is rounded at most kDotDepth times.
constexpr int kDotDepth = 128;
double dot(const double* u, const double* v, int64_t n, const Context& context);
double sum(const double* v, int64_t n, const Context& context);
// out = u + t v, rounded after the product and after the sum; out may be u.
void add_scaled(const double* u, double t, const double* v, int64_t n, double* out,
                const Context& context);
// out = t v; out may be v.
void scale(double t, const double* v, int64_t n, double* out, const Context& context);
// Whether v is not zero; fast if one of the first elements is not.
bool any_nonzero(const double* v, int64_t n);
// Whether no element is NaN or infinite.
template <class T>
bool all_finite(const T* v, int64_t n, const Context& context);

}  // namespace ranksvm
