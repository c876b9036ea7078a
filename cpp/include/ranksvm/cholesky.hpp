// Cholesky factors of small matrices, on one thread: A = L L'.
//
// LAPACK would do. But the number of threads of its BLAS changes the last bits, and it can be set
// for the whole process only, by one of its threads.
#pragma once

#include <cstdint>

namespace ranksvm {

// Replaces the lower triangle of a symmetric n x n matrix, stored by rows, by L; the rest of it is
// not used. Returns false if the matrix is not positive definite; it is spoiled then.
bool cholesky(double* a, int64_t n);

// Replaces b by the solution of A x = b.
void solve_cholesky(const double* factor, int64_t n, double* b);

}  // namespace ranksvm
