// Operations on long vectors.
#include "ranksvm/vectors.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>

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
}

}  // namespace ranksvm::bindings
