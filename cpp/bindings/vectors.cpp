// Operations on long vectors.
#include "ranksvm/vectors.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "common.hpp"

namespace ranksvm::bindings {
namespace {

// Runs `body(context)`. What is done to short vectors takes less time than to let go of the
// interpreter lock and to get it back.
template <class Body>
void run_on(std::size_t n, int threads, Body&& body) {
  constexpr std::size_t kShort = std::size_t{1} << 14;
  if (n < kShort) {
    body(Context());
  } else {
    run(threads, body);
  }
}

template <class T>
void bind_finite(nb::module_& m) {
  using Values = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def(
      "all_finite",
      [](Values v, int threads) {
        bool found = false;
        run(threads, [&](const Context& c) { found = all_finite(v.data(), size_of(v), c); });
        return found;
      },
      nb::arg("v").noconvert(), nb::arg("threads"), "Whether no element is NaN or infinite.");
}

template <class I>
void bind_indices(nb::module_& m) {
  using Indices = nb::ndarray<const I, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def(
      "all_indices",
      [](Indices v, int64_t size, int threads) {
        bool found = false;
        run(threads, [&](const Context& c) { found = all_indices(v.data(), size_of(v), size, c); });
        return found;
      },
      nb::arg("v").noconvert(), nb::arg("size"), nb::arg("threads"),
      "Whether all elements are from 0 to size - 1.");
}

}  // namespace

void bind_vectors(nb::module_& m) {
  using Own = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def(
      "dot",
      [](Vector u, Vector v, int threads) {
        need_size(v.size(), u.size(), "v");
        double found = 0.0;
        run_on(u.size(), threads,
               [&](const Context& c) { found = dot(u.data(), v.data(), size_of(u), c); });
        return found;
      },
      nb::arg("u"), nb::arg("v"), nb::arg("threads"), "The inner product.");
  m.def(
      "add_scaled",
      [](Vector u, double t, Vector v, int threads) {
        need_size(v.size(), u.size(), "v");
        Out out = make_out(u.size());
        run_on(u.size(), threads, [&](const Context& c) {
          add_scaled(u.data(), t, v.data(), size_of(u), out.data(), c);
        });
        return out;
      },
      nb::arg("u"), nb::arg("t"), nb::arg("v"), nb::arg("threads"), "u + t v.");
  m.def(
      "add_scaled_to",
      [](Own u, double t, Vector v, int threads) {
        need_size(v.size(), u.size(), "v");
        run_on(u.size(), threads, [&](const Context& c) {
          add_scaled(u.data(), t, v.data(), size_of(u), u.data(), c);
        });
      },
      nb::arg("u").noconvert(), nb::arg("t"), nb::arg("v"), nb::arg("threads"), "Add t v to u.");
  m.def(
      "combined",
      [](const std::vector<double>& t, const std::vector<Vector>& v, int threads) {
        need_size(v.size(), t.size(), "v");
        if (v.empty()) throw std::invalid_argument("there is no vector to combine");
        std::vector<const double*> data;
        for (const Vector& one : v) {
          need_size(one.size(), v[0].size(), "a vector");
          data.push_back(one.data());
        }
        Out out = make_out(v[0].size());
        run_on(v[0].size(), threads, [&](const Context& c) {
          combine(t.data(), data.data(), t.size(), size_of(v[0]), out.data(), c);
        });
        return out;
      },
      nb::arg("t"), nb::arg("v"), nb::arg("threads"), "t[0] v[0] + t[1] v[1] + ...");
  m.def(
      "power_sums",
      [](Vector u, Vector c, double t, Own v, int threads) {
        need_size(c.size(), u.size(), "c");
        need_size(v.size(), u.size(), "v");
        std::pair<double, double> found;
        run_on(u.size(), threads, [&](const Context& context) {
          found = power_sums(u.data(), c.data(), t, v.data(), size_of(u), context);
        });
        return found;
      },
      nb::arg("u"), nb::arg("c"), nb::arg("t"), nb::arg("v").noconvert(), nb::arg("threads"),
      "Inner products of u and c, and of c and v; replaces v by 2 (v + t u).");
  m.def(
      "scaled",
      [](double t, Vector v, int threads) {
        Out out = make_out(v.size());
        run_on(v.size(), threads,
               [&](const Context& c) { scale(t, v.data(), size_of(v), out.data(), c); });
        return out;
      },
      nb::arg("t"), nb::arg("v"), nb::arg("threads"), "t v.");
  m.def(
      "scale",
      [](double t, Own v, int threads) {
        run_on(v.size(), threads,
               [&](const Context& c) { scale(t, v.data(), size_of(v), v.data(), c); });
      },
      nb::arg("t"), nb::arg("v").noconvert(), nb::arg("threads"), "Multiply v by t.");
  m.def(
      "any_nonzero", [](Vector v) { return any_nonzero(v.data(), size_of(v)); }, nb::arg("v"),
      "Whether v is not zero.");
  bind_finite<double>(m);
  bind_finite<float>(m);
  bind_indices<int32_t>(m);
  bind_indices<int64_t>(m);
}

}  // namespace ranksvm::bindings
