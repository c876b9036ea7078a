// Products with matrices, scatter, and the sample that a scatter is computed from.
#include "ranksvm/products.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common.hpp"
#include "ranksvm/cholesky.hpp"

namespace ranksvm::bindings {
namespace {

template <class Matrix>
Out product(bool transposed, const Matrix& matrix, const Vector& x, int threads) {
  need_size(x.size(), transposed ? matrix.rows : matrix.cols, "the vector");
  Out out = make_out(transposed ? matrix.cols : matrix.rows);
  run(threads, [&](const Context& context) {
    if (transposed) {
      multiply_transposed(matrix, x.data(), out.data(), context);
    } else {
      multiply(matrix, x.data(), out.data(), context);
    }
  });
  return out;
}

template <class Matrix>
Out row_squares(bool transposed, const Matrix& matrix, double scale, int threads) {
  Out out = make_out(transposed ? matrix.cols : matrix.rows);
  run(threads, [&](const Context& context) {
    if (transposed) {
      squares_of_columns(matrix, scale, out.data(), context);
    } else {
      squares_of_rows(matrix, scale, out.data(), context);
    }
  });
  return out;
}

template <class T>
void bind_dense(nb::module_& m) {
  using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  m.def(
      "dense_product",
      [](Matrix a, Vector x, bool transposed, int threads) {
        const auto rows = static_cast<int64_t>(a.shape(0)), cols = static_cast<int64_t>(a.shape(1));
        return product(transposed, DenseRows<T>{a.data(), rows, cols, cols}, x, threads);
      },
      nb::arg("matrix").noconvert(), nb::arg("x").noconvert(), nb::arg("transposed"),
      nb::arg("threads"), "A x, or A' x when transposed, for A in C order.");
  m.def(
      "dense_squares",
      [](Matrix a, double scale, bool transposed, int threads) {
        const auto rows = static_cast<int64_t>(a.shape(0)), cols = static_cast<int64_t>(a.shape(1));
        return row_squares(transposed, DenseRows<T>{a.data(), rows, cols, cols}, scale, threads);
      },
      nb::arg("matrix").noconvert(), nb::arg("scale"), nb::arg("transposed"), nb::arg("threads"),
      "Squared norms of the rows of scale * A, or of its columns when transposed; A in C order.");
}

RowsInGroups rows_in_groups(const Index& rows, const Index& offsets) {
  if (offsets.size() == 0) throw std::invalid_argument("no offsets");
  const std::size_t groups = offsets.size() - 1;
  need_size(rows.size(), static_cast<std::size_t>(offsets(groups)), "rows");
  return {rows.data(), offsets.data(), static_cast<int64_t>(groups)};
}

OutOf<int64_t> copied(const std::vector<int64_t>& values) {
  OutOf<int64_t> out = make_out<int64_t>(values.size());
  std::copy(values.begin(), values.end(), out.data());
  return out;
}

template <class T>
void bind_scatter(nb::module_& m) {
  using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
  m.def(
      "scatter",
      [](Matrix a, Vector weight, Index rows, Index offsets, int threads) {
        need_size(weight.size(), a.shape(0), "weight");
        const RowsInGroups sample = rows_in_groups(rows, offsets);
        const Strided<T> matrix = strided<T>(a);
        Out out = make_out(a.shape(1) * a.shape(1));
        run(threads, [&](const Context& context) {
          scatter(matrix, weight.data(), sample, out.data(), context);
        });
        return out;
      },
      nb::arg("matrix").noconvert(), nb::arg("weight").noconvert(), nb::arg("rows").noconvert(),
      nb::arg("offsets").noconvert(), nb::arg("threads"),
      "Weighted scatter of rows inside groups, flattened; scaled up if they are a sample.");
  m.def(
      "sample_rows",
      [](Matrix a, Index rows, Index offsets, int64_t step, bool by_group, int threads) {
        need_size(rows.size(), a.shape(0), "rows");
        const RowsInGroups all = rows_in_groups(rows, offsets);
        const Strided<T> matrix = strided<T>(a);
        RowSample found;
        run(threads, [&](const Context& context) {
          found = sample_rows(matrix, all.rows, all.offsets, all.groups, step, by_group, context);
        });
        return std::make_pair(copied(found.rows), copied(found.offsets));
      },
      nb::arg("matrix").noconvert(), nb::arg("rows").noconvert(), nb::arg("offsets").noconvert(),
      nb::arg("step"), nb::arg("by_group"), nb::arg("threads"),
      "About one in `step` rows, or whole groups; as rows and offsets.");
  m.def(
      "hash_rows",
      [](Matrix a, int threads) {
        const Strided<T> matrix = strided<T>(a);
        OutOf<uint64_t> out = make_out<uint64_t>(a.shape(0));
        run(threads, [&](const Context& context) { hash_rows(matrix, out.data(), context); });
        return out;
      },
      nb::arg("matrix").noconvert(), nb::arg("threads"),
      "Hash of each row, which chooses the sample of scatter.");
}

void bind_cholesky(nb::module_& m) {
  using Square = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  m.def(
      "cholesky",
      [](Square a) {
        need_size(a.shape(1), a.shape(0), "the second axis");
        bool done = false;
        run(1,
            [&](const Context&) { done = cholesky(a.data(), static_cast<int64_t>(a.shape(0))); });
        return done;
      },
      nb::arg("matrix").noconvert(),
      "Replace the lower triangle of a symmetric matrix by its Cholesky factor; False if it is not "
      "positive definite.");
  m.def(
      "solve_cholesky",
      [](Table factor, Vector b) {
        need_size(factor.shape(1), factor.shape(0), "the second axis");
        need_size(b.size(), factor.shape(0), "b");
        Out out = make_out(b.size());
        std::copy_n(b.data(), b.size(), out.data());
        solve_cholesky(factor.data(), size_of(b), out.data());
        return out;
      },
      nb::arg("factor").noconvert(), nb::arg("b").noconvert(),
      "The solution x of A x = b, from the Cholesky factor of A.");
}

void bind_hash(nb::module_& m) {
  using Hashes = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def(
      "mix_hashes",
      [](Hashes hashes) {
        OutOf<uint64_t> out = make_out<uint64_t>(hashes.size());
        std::transform(hashes.data(), hashes.data() + hashes.size(), out.data(), mix_hash);
        return out;
      },
      nb::arg("hashes").noconvert(),
      "The hash of a group of rows, from the largest hash of its rows; for several groups.");
}

template <class T, class I>
void bind_sparse(nb::module_& m) {
  using Values = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using Indices = nb::ndarray<const I, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def(
      "sparse_product",
      [](Values value, Indices column, Indices start, int64_t cols, Vector x, bool transposed,
         int threads) {
        need_size(column.size(), value.size(), "indices");
        const auto rows = static_cast<int64_t>(start.size()) - 1;
        const SparseRows<T, I> a{start.data(), column.data(), value.data(), rows, cols};
        return product(transposed, a, x, threads);
      },
      nb::arg("data").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
      nb::arg("cols"), nb::arg("x").noconvert(), nb::arg("transposed"), nb::arg("threads"),
      "A x, or A' x when transposed, for A in compressed rows with checked indices.");
  m.def(
      "sparse_squares",
      [](Values value, Indices column, Indices start, int64_t cols, double scale, bool transposed,
         int threads) {
        need_size(column.size(), value.size(), "indices");
        const auto rows = static_cast<int64_t>(start.size()) - 1;
        const SparseRows<T, I> a{start.data(), column.data(), value.data(), rows, cols};
        return row_squares(transposed, a, scale, threads);
      },
      nb::arg("data").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
      nb::arg("cols"), nb::arg("scale"), nb::arg("transposed"), nb::arg("threads"),
      "Squared norms of the rows of scale * A, or of its columns when transposed.");
  m.def(
      "sparse_scatter_diagonal",
      [](Values value, Indices column, Indices start, int64_t cols, bool items_are_rows,
         Vector weight, Index group, Index members, Index offsets, int threads) {
        need_size(column.size(), value.size(), "indices");
        const auto rows = static_cast<int64_t>(start.size()) - 1;
        need_size(group.size(), items_are_rows ? rows : cols, "group");
        need_size(weight.size(), group.size(), "weight");
        need_size(members.size(), group.size(), "members");
        const SparseRows<T, I> a{start.data(), column.data(), value.data(), rows, cols};
        const Groups groups{static_cast<int64_t>(offsets.size()) - 1, group.data(), members.data(),
                            offsets.data()};
        Out out = make_out(items_are_rows ? cols : rows);
        run(threads, [&](const Context& c) {
          scatter_diagonal(a, items_are_rows, weight.data(), groups, out.data(), c);
        });
        return out;
      },
      nb::arg("data").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
      nb::arg("cols"), nb::arg("items_are_rows"), nb::arg("weight").noconvert(),
      nb::arg("group").noconvert(), nb::arg("members").noconvert(), nb::arg("offsets").noconvert(),
      nb::arg("threads"),
      "By feature: weighted squared deviations from the mean of the group, summed.");
}

}  // namespace

void bind_products(nb::module_& m) {
  m.def("depth_of_product", &depth_of_product, nb::arg("rows"), nb::arg("cols"),
        nb::arg("elements"), nb::arg("longest"), nb::arg("dense"), nb::arg("transposed"),
        "How often a term of an element of A x, or of A' x when transposed, is rounded at most.");
  bind_dense<double>(m);
  bind_dense<float>(m);
  bind_cholesky(m);
  bind_scatter<double>(m);
  bind_scatter<float>(m);
  bind_hash(m);
  bind_sparse<double, int32_t>(m);
  bind_sparse<double, int64_t>(m);
  bind_sparse<float, int32_t>(m);
  bind_sparse<float, int64_t>(m);
}

}  // namespace ranksvm::bindings
