// Moments of columns, and matrices with rescaled columns.
#include "ranksvm/columns.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <utility>

#include "common.hpp"

namespace ranksvm::bindings {
namespace {

using Filled = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Matrix>
void need_shape_of(const Matrix& a, const Filled& out) {
  need_size(out.shape(0), a.shape(0), "the first axis of out");
  need_size(out.shape(1), a.shape(1), "the second axis of out");
}

template <class T>
void bind(nb::module_& m) {
  using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
  m.def(
      "column_moments",
      [](Matrix a, Vector weight, Vector factor, int threads) {
        const std::size_t cols = a.shape(1);
        if (weight.size() != 0) need_size(weight.size(), a.shape(0), "weight");
        need_size(factor.size(), cols, "factor");
        Out out = make_out(4 * cols);
        double* data = out.data();
        const ColumnMoments moments{data, data + cols, data + 2 * cols, data + 3 * cols};
        const double* weights = weight.size() == 0 ? nullptr : weight.data();
        double total = 0.0;
        const Strided<T> matrix = strided<T>(a);
        run(threads, [&](const Context& context) {
          total = column_moments(matrix, weights, factor.data(), moments, context);
        });
        return std::make_pair(total, out);
      },
      nb::arg("matrix").noconvert(), nb::arg("weight").noconvert(), nb::arg("factor").noconvert(),
      nb::arg("threads"),
      "Total weight, and for every column of factor * x mean and sum of squared deviations, of x "
      "lowest and highest value, one after the other. An empty weight means ones.");
  m.def(
      "scale_columns",
      [](Matrix a, Vector offset, Vector factor, Filled out, int threads) {
        need_size(offset.size(), a.shape(1), "offset");
        need_size(factor.size(), a.shape(1), "factor");
        need_shape_of(a, out);
        const Strided<T> matrix = strided<T>(a);
        run(threads, [&](const Context& context) {
          scale_columns(matrix, offset.data(), factor.data(), out.data(), context);
        });
      },
      nb::arg("matrix").noconvert(), nb::arg("offset").noconvert(), nb::arg("factor").noconvert(),
      nb::arg("out").noconvert(), nb::arg("threads"), "out = (x - offset) * factor.");
  m.def(
      "map_columns",
      [](Matrix a, Table knots, Table levels, Filled out, int threads) {
        need_size(knots.shape(0), a.shape(1), "the first axis of knots");
        need_size(levels.shape(0), a.shape(1), "the first axis of levels");
        need_size(levels.shape(1), knots.shape(1), "the second axis of levels");
        if (knots.shape(1) == 0) throw std::invalid_argument("there are no knots");
        need_shape_of(a, out);
        const Strided<T> matrix = strided<T>(a);
        run(threads, [&](const Context& context) {
          map_columns(matrix, knots.data(), levels.data(), static_cast<int64_t>(knots.shape(1)),
                      out.data(), context);
        });
      },
      nb::arg("matrix").noconvert(), nb::arg("knots").noconvert(), nb::arg("levels").noconvert(),
      nb::arg("out").noconvert(), nb::arg("threads"),
      "out = level at x, linear between the knots of its column.");
}

}  // namespace

void bind_columns(nb::module_& m) {
  bind<double>(m);
  bind<float>(m);
}

}  // namespace ranksvm::bindings
