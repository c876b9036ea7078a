// Features of items relative to their query.
#include "ranksvm/query_features.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "common.hpp"

namespace ranksvm::bindings {
namespace {

QueryFeature feature_named(const std::string& name) {
  if (name == "rank") return QueryFeature::rank;
  if (name == "minmax") return QueryFeature::minmax;
  if (name == "zscore") return QueryFeature::zscore;
  if (name == "mean_diff") return QueryFeature::mean_diff;
  throw std::invalid_argument("no query feature " + name);
}

template <class O>
using Filled = nb::ndarray<O, nb::ndim<2>, nb::device::cpu>;

// Checks the shapes, and computes the features of a matrix of rows x cols.
template <class Matrix, class O>
void compute(const Matrix& x, const Index& rows, const Index& offsets,
             const std::vector<std::string>& names, Filled<O>& out, int threads) {
  if (offsets.size() == 0 || offsets(0) != 0) {
    throw std::invalid_argument("offsets do not start at 0");
  }
  const std::size_t groups = offsets.size() - 1;
  for (std::size_t q = 0; q < groups; ++q) {
    if (offsets(q + 1) < offsets(q)) throw std::invalid_argument("offsets do not ascend");
  }
  need_size(rows.size(), static_cast<std::size_t>(offsets(groups)), "rows");
  need_size(out.shape(0), static_cast<std::size_t>(x.rows), "the first axis of out");
  need_size(out.shape(1), static_cast<std::size_t>(x.cols) * names.size(),
            "the second axis of out");
  if (out.shape(1) > 1 && out.stride(1) != 1) {
    throw std::invalid_argument("the rows of out are not contiguous");
  }
  std::vector<QueryFeature> features;
  for (const std::string& name : names) features.push_back(feature_named(name));
  run(threads, [&](const Context& context) {
    query_features(x, {rows.data(), offsets.data(), static_cast<int64_t>(groups)}, features,
                   QueryFeatureTable<O>{out.data(), out.stride(0)}, context);
  });
}

template <class T, class O>
void bind_dense(nb::module_& m) {
  m.def(
      "dense_query_features",
      [](nb::ndarray<const T, nb::ndim<2>, nb::device::cpu> x, Index rows, Index offsets,
         const std::vector<std::string>& names, Filled<O> out, int threads) {
        const Strided<T> matrix{x.data(), static_cast<int64_t>(x.shape(0)),
                                static_cast<int64_t>(x.shape(1)), x.stride(0), x.stride(1)};
        compute(matrix, rows, offsets, names, out, threads);
      },
      nb::arg("x").noconvert(), nb::arg("rows").noconvert(), nb::arg("offsets").noconvert(),
      nb::arg("names"), nb::arg("out").noconvert(), nb::arg("threads"),
      "Fill out with the features of each item among those of its query, name by name.");
}

template <class T, class I, class O>
void bind_sparse(nb::module_& m) {
  m.def(
      "sparse_query_features",
      [](nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> value,
         nb::ndarray<const I, nb::ndim<1>, nb::c_contig, nb::device::cpu> column,
         nb::ndarray<const I, nb::ndim<1>, nb::c_contig, nb::device::cpu> start, int64_t cols,
         Index rows, Index offsets, const std::vector<std::string>& names, Filled<O> out,
         int threads) {
        need_size(column.size(), value.size(), "indices");
        if (start.size() == 0) throw std::invalid_argument("indptr is empty");
        const SparseRows<T, I> matrix{start.data(), column.data(), value.data(),
                                      static_cast<int64_t>(start.size()) - 1, cols};
        compute(matrix, rows, offsets, names, out, threads);
      },
      nb::arg("data").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
      nb::arg("cols"), nb::arg("rows").noconvert(), nb::arg("offsets").noconvert(),
      nb::arg("names"), nb::arg("out").noconvert(), nb::arg("threads"),
      "The same for compressed rows with checked structure and no duplicate elements.");
}

template <class T, class O>
void bind_both(nb::module_& m) {
  bind_dense<T, O>(m);
  bind_sparse<T, int32_t, O>(m);
  bind_sparse<T, int64_t, O>(m);
}

}  // namespace

void bind_query_features(nb::module_& m) {
  bind_both<double, double>(m);
  bind_both<double, float>(m);
  bind_both<float, double>(m);
  bind_both<float, float>(m);
}

}  // namespace ranksvm::bindings
