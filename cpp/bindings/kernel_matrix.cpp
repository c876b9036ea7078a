// Products with kernel matrices.
#include "ranksvm/kernel_matrix.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common.hpp"

namespace ranksvm::bindings {
namespace {

using Updated = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Items, and the arrays that they are read from.
struct PyRows {
  std::unique_ptr<KernelRows> rows;
  std::vector<nb::ndarray<>> arrays;
};

// The numbers of a vector that may be missing; it is kept in `arrays`.
const double* data_of(const std::optional<Vector>& x, std::size_t n, const char* name,
                      std::vector<nb::ndarray<>>& arrays) {
  if (!x) return nullptr;
  need_size(x->size(), n, name);
  arrays.emplace_back(*x);
  return x->data();
}

PyRows make_rows(const KernelRows::Data& data, std::size_t n, const ItemScale& scale,
                 const std::optional<Vector>& shift, std::vector<nb::ndarray<>> arrays,
                 int threads) {
  const double* const shifts = data_of(shift, n, "shift", arrays);
  PyRows result{nullptr, std::move(arrays)};
  run(threads, [&](const Context& context) {
    result.rows = std::make_unique<KernelRows>(data, scale, shifts, simd_loops(), context);
  });
  return result;
}

template <class T>
void bind_dense_rows(nb::class_<PyRows>& rows) {
  using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
  rows.def_static(
      "dense",
      [](Matrix x, std::optional<Vector> offset, std::optional<Vector> factor,
         std::optional<Vector> centre, std::optional<Vector> shift, int threads, bool packed) {
        const auto n = static_cast<int64_t>(x.shape(0)), cols = static_cast<int64_t>(x.shape(1));
        if (offset.has_value() != factor.has_value()) {
          throw std::invalid_argument("offset and factor go together");
        }
        std::vector<nb::ndarray<>> arrays{nb::ndarray<>(x)};
        const ItemScale scale{data_of(offset, x.shape(1), "offset", arrays),
                              data_of(factor, x.shape(1), "factor", arrays),
                              data_of(centre, x.shape(1), "centre", arrays)};
        PyRows made = make_rows(Strided<T>{x.data(), n, cols, x.stride(0), x.stride(1)}, x.shape(0),
                                scale, shift, std::move(arrays), threads);
        if (packed) {
          run(threads, [&](const Context& context) { made.rows->keep_panels(context); });
        }
        return made;
      },
      nb::arg("X").noconvert(), nb::arg("offset").noconvert().none() = nb::none(),
      nb::arg("factor").noconvert().none() = nb::none(),
      nb::arg("centre").noconvert().none() = nb::none(),
      nb::arg("shift").noconvert().none() = nb::none(), nb::arg("threads") = 1,
      nb::arg("packed") = false,
      "The rows of (X - offset) * factor - centre; nothing is copied, except with `packed`: a "
      "second form of short rows is kept then, with which they are faster as the second side.");
}

template <class T, class I>
void bind_sparse_rows(nb::class_<PyRows>& rows) {
  using Values = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using Indices = nb::ndarray<const I, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  rows.def_static(
      "sparse",
      [](Values value, Indices column, Indices start, int64_t cols, std::optional<Vector> factor,
         std::optional<Vector> shift, int threads) {
        need_size(column.size(), value.size(), "indices");
        const auto wrong = [](const char* why) {
          throw std::invalid_argument(std::string("indptr ") + why);
        };
        if (start.size() == 0 || start(0) != 0) wrong("does not start at 0");
        const std::size_t n = start.size() - 1;
        for (std::size_t r = 0; r < n; ++r) {
          if (start(r + 1) < start(r)) wrong("does not ascend");
        }
        if (static_cast<std::size_t>(start(n)) > value.size()) wrong("ends behind the nonzeros");
        if (cols < 0) throw std::invalid_argument("n_cols is negative");
        const SparseRows<T, I> data{start.data(), column.data(), value.data(),
                                    static_cast<int64_t>(n), cols};
        std::vector<nb::ndarray<>> arrays{nb::ndarray<>(value), nb::ndarray<>(column),
                                          nb::ndarray<>(start)};
        ItemScale scale;
        scale.factor = data_of(factor, static_cast<std::size_t>(cols), "factor", arrays);
        return make_rows(data, n, scale, shift, std::move(arrays), threads);
      },
      nb::arg("data").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
      nb::arg("n_cols"), nb::arg("factor").noconvert().none() = nb::none(),
      nb::arg("shift").noconvert().none() = nb::none(), nb::arg("threads") = 1,
      "The rows of a sparse matrix in compressed rows, columns ascending in each, times factor; "
      "nothing is copied.");
}

// Of a range that may be empty, or upside down, which is found later.
std::size_t length(int64_t first, int64_t last) {
  return static_cast<std::size_t>(std::max<int64_t>(0, last - first));
}

void need_apart(const Vector& x, const Updated& y) {
  if (x.size() > 0 && x.data() == y.data()) {
    throw std::invalid_argument("x and y are the same array, but y is changed while x is read");
  }
}

// Functions with an array of kernel values.
template <class T>
void bind_values(nb::module_& m) {
  using Block = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
  using Strip = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  m.def(
      "kernel_block",
      [](const KernelFunction& f, const PyRows& a, int64_t a0, int64_t a1, const PyRows& b,
         int64_t b0, int64_t b1, Block out, int threads) {
        need_size(out.shape(0), length(a0, a1), "the first axis of out");
        need_size(out.shape(1), length(b0, b1), "the second axis of out");
        if (out.size() > 0 && out.shape(1) > 1 && out.stride(1) != 1) {
          throw std::invalid_argument("the rows of out are not contiguous");
        }
        run(threads, [&](const Context& context) {
          kernel_block(f, *a.rows, {a0, a1}, *b.rows, {b0, b1}, out.data(), out.stride(0), context);
        });
      },
      nb::arg("f"), nb::arg("A"), nb::arg("a0"), nb::arg("a1"), nb::arg("B"), nb::arg("b0"),
      nb::arg("b1"), nb::arg("out").noconvert(), nb::arg("threads"),
      "out = k(a_i, b_j) for rows a0 .. a1 of A and b0 .. b1 of B.");
  m.def(
      "symmetric_strip",
      [](Strip s, int64_t a0, Vector x, Updated y, int threads) {
        const auto rows = static_cast<int64_t>(s.shape(0)), cols = static_cast<int64_t>(s.shape(1));
        need_size(x.size(), length(-a0, cols), "x");
        need_size(y.size(), x.size(), "y");
        need_apart(x, y);
        run(threads, [&](const Context& context) {
          symmetric_strip(s.data(), cols, {a0, a0 + rows}, a0 + cols, x.data(), y.data(), context);
        });
      },
      nb::arg("strip").noconvert(), nb::arg("a0"), nb::arg("x").noconvert(),
      nb::arg("y").noconvert(), nb::arg("threads"),
      "With S = K[a0:a1, a0:n]: y[a0:a1] += S x[a0:n] and y[a1:n] += S[:, a1-a0:]' x[a0:a1]. The "
      "strips of all rows give K x.");
}

// A kernel matrix, and the items that it is computed from.
template <class T>
struct PyStrips {
  std::shared_ptr<KernelStrips<T>> strips;
  nb::object rows;
};

template <class T>
void bind_strips(nb::module_& m, const char* name) {
  nb::class_<PyStrips<T>>(m, name, "The kernel matrix of items, kept in part, for products.")
      .def(
          "__init__",
          [](PyStrips<T>* self, const KernelFunction& f, nb::object rows, int64_t height,
             const std::vector<bool>& held, int threads) {
            const KernelRows& items = *nb::cast<const PyRows&>(rows).rows;
            std::shared_ptr<KernelStrips<T>> strips;
            run(threads, [&](const Context& context) {
              strips = std::make_shared<KernelStrips<T>>(f, items, height, held, context);
            });
            new (self) PyStrips<T>{std::move(strips), std::move(rows)};
          },
          nb::arg("f"), nb::arg("rows"), nb::arg("height"), nb::arg("held"), nb::arg("threads"),
          "Strips of so many rows each; `held` tells which are kept.")
      .def(
          "product",
          [](const PyStrips<T>& k, Vector x, int threads) {
            const auto n = static_cast<std::size_t>(k.strips->rows());
            need_size(x.size(), n, "x");
            Out out = make_out(n);
            run(threads,
                [&](const Context& context) { k.strips->product(x.data(), out.data(), context); });
            return out;
          },
          nb::arg("x").noconvert(), nb::arg("threads"), "K x.");
}

}  // namespace

void bind_kernel_matrix(nb::module_& m) {
  m.attr("kernel_strip_rows") = kStripRows;

  nb::class_<KernelFunction>(m, "KernelFunction", "scale * k(x, z).")
      .def(
          "__init__",
          [](KernelFunction* self, const std::string& name, double gamma, double coef0,
             int64_t degree, double scale) {
            new (self) KernelFunction(kernel_function(name, gamma, coef0, degree, scale));
          },
          nb::arg("name"), nb::arg("gamma") = 1.0, nb::arg("coef0") = 0.0, nb::arg("degree") = 1,
          nb::arg("scale") = 1.0);

  auto rows = nb::class_<PyRows>(m, "KernelRows", "Items of a kernel matrix: rows of a matrix.")
                  .def_prop_ro("shape", [](const PyRows& r) {
                    return std::make_pair(r.rows->rows(), r.rows->cols());
                  });
  bind_dense_rows<double>(rows);
  bind_dense_rows<float>(rows);
  bind_sparse_rows<double, int32_t>(rows);
  bind_sparse_rows<double, int64_t>(rows);
  bind_sparse_rows<float, int32_t>(rows);
  bind_sparse_rows<float, int64_t>(rows);

  bind_values<double>(m);
  bind_values<float>(m);
  m.def(
      "kernel_cross",
      [](const KernelFunction& f, const PyRows& a, const PyRows& b, Vector coef, int threads) {
        need_size(coef.size(), static_cast<std::size_t>(b.rows->rows()), "coef");
        Out out = make_out(static_cast<std::size_t>(a.rows->rows()));
        run(threads, [&](const Context& context) {
          kernel_cross(f, *a.rows, *b.rows, coef.data(), out.data(), context);
        });
        return out;
      },
      nb::arg("f"), nb::arg("A"), nb::arg("B"), nb::arg("coef").noconvert(), nb::arg("threads"),
      "By row of A: sum over j of k(a_i, b_j) coef_j.");
  bind_strips<double>(m, "KernelStrips64");
  bind_strips<float>(m, "KernelStrips32");
}

}  // namespace ranksvm::bindings
