// Sums over all comparable pairs whose weights are inner products of vectors of the items.
//
// Every item i has a vector v_i of k numbers; a pair of a better item b and a worse item w has the
// multiplier <v_b, v_w>. The coefficient of item i in the sum over pairs of <v_b, v_w> (x_b - x_w)
// is then
//
//     c_i = <v_i, sum of v_j over worse j - sum of v_j over better j>,
//
// and the derivative of the sum over pairs of <v_b, v_w> (t_b - t_w) by v_i is
//
//     sum over worse j of (t_i - t_j) v_j - sum over better j of (t_i - t_j) v_j.
//
// In relevance order these are running sums: O(n k), however many pairs there are. The vectors are
// stored in that order, by position (see order.hpp), so that a sweep reads memory from end to end.
#pragma once

#include "ranksvm/order.hpp"
#include "ranksvm/parallel.hpp"

namespace ranksvm {

// By row: c. `v` has k numbers a position.
void factor_coefficients(const Order& order, const double* v, unsigned k, double* c,
                         const Context& context);

// By position, k numbers each: the derivative, for t by row. Constants added to t in a query drop
// out.
void factor_gradient(const Order& order, const double* v, const double* t, unsigned k, double* out,
                     const Context& context);

}  // namespace ranksvm
