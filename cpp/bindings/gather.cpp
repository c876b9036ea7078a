// Copies of some rows of a matrix.
#include "ranksvm/gather.hpp"

#include "common.hpp"

namespace ranksvm::bindings {
namespace {

template <class T>
using Fill = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Read = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
void bind_take_dense(nb::module_& m) {
  m.def(
      "take_rows",
      [](nb::ndarray<const T, nb::ndim<2>, nb::device::cpu> x, Index rows,
         nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, int threads) {
        need_size(out.shape(0), rows.size(), "the first axis of out");
        need_size(out.shape(1), x.shape(1), "the second axis of out");
        if (x.shape(1) > 1 && x.stride(1) != 1) {
          throw std::invalid_argument("the rows of x are not contiguous");
        }
        constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
        run(threads, [&](const Context& context) {
          take_rows(reinterpret_cast<const char*>(x.data()), static_cast<int64_t>(x.shape(0)),
                    x.stride(0) * kBytes, static_cast<int64_t>(x.shape(1)) * kBytes, rows.data(),
                    static_cast<int64_t>(rows.size()), reinterpret_cast<char*>(out.data()),
                    context);
        });
      },
      nb::arg("x").noconvert(), nb::arg("rows").noconvert(), nb::arg("out").noconvert(),
      nb::arg("threads"), "out = x[rows].");
}

template <class I>
void bind_take_starts(nb::module_& m) {
  m.def(
      "take_starts",
      [](Read<I> indptr, std::size_t n_elements, Index rows, Fill<I> out) {
        if (indptr.size() == 0) throw std::invalid_argument("indptr is empty");
        need_size(out.size(), rows.size() + 1, "out");
        run(1, [&](const Context&) {
          take_starts(indptr.data(), static_cast<int64_t>(indptr.size()) - 1,
                      static_cast<int64_t>(n_elements), rows.data(),
                      static_cast<int64_t>(rows.size()), out.data());
        });
      },
      nb::arg("indptr").noconvert(), nb::arg("n_elements"), nb::arg("rows").noconvert(),
      nb::arg("out").noconvert(), "The indptr of some compressed rows.");
}

template <class T, class I>
void bind_take_elements(nb::module_& m) {
  m.def(
      "take_elements",
      [](Read<I> indptr, Read<I> indices, Read<T> data, Index rows, Read<I> starts,
         Fill<I> out_indices, Fill<T> out_data, int threads) {
        need_size(starts.size(), rows.size() + 1, "starts");
        need_size(indices.size(), data.size(), "indices");
        const auto total = static_cast<std::size_t>(starts(rows.size()));
        need_size(out_indices.size(), total, "out_indices");
        need_size(out_data.size(), total, "out_data");
        run(threads, [&](const Context& context) {
          take_elements(indptr.data(), indices.data(), data.data(), rows.data(),
                        static_cast<int64_t>(rows.size()), starts.data(), out_indices.data(),
                        out_data.data(), context);
        });
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("data").noconvert(),
      nb::arg("rows").noconvert(), nb::arg("starts").noconvert(),
      nb::arg("out_indices").noconvert(), nb::arg("out_data").noconvert(), nb::arg("threads"),
      "The elements of some compressed rows; `starts` is what take_starts returned for them.");
}

}  // namespace

void bind_gather(nb::module_& m) {
  bind_take_dense<double>(m);
  bind_take_dense<float>(m);
  bind_take_starts<int32_t>(m);
  bind_take_starts<int64_t>(m);
  bind_take_elements<double, int32_t>(m);
  bind_take_elements<double, int64_t>(m);
  bind_take_elements<float, int32_t>(m);
  bind_take_elements<float, int64_t>(m);
}

}  // namespace ranksvm::bindings
