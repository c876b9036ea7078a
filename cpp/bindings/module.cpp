// Thin bindings: they convert, check shapes and let go of the interpreter; no arithmetic here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "common.hpp"
#include "ranksvm/factors.hpp"
#include "ranksvm/order.hpp"
#include "ranksvm/plan.hpp"
#include "ranksvm/products.hpp"
#include "ranksvm/simd.hpp"
#include "ranksvm/vectors.hpp"

namespace nb = nanobind;
using namespace ranksvm;            // NOLINT: the whole file is about these namespaces
using namespace ranksvm::bindings;  // NOLINT

namespace {

Counting counting_named(const std::string& name) {
  if (name == "auto") return Counting::automatic;
  if (name == "tree") return Counting::tree;
  if (name == "direct") return Counting::direct;
  if (name == "joachims") return Counting::joachims;
  if (name == "pairs") return Counting::pairs;
  throw std::invalid_argument("unknown counting '" + name +
                              "'; valid: auto, tree, direct, joachims, pairs");
}

// Python holds sorted scores by these; an order is shared with all of them and with their plans.
struct PyOrder {
  std::shared_ptr<Order> order;
};
struct PySorted {
  std::unique_ptr<Sorted> sorted;
  Counting counting;
};

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

template <class T, class Matrix>
Strided<T> strided(const Matrix& a) {
  return {a.data(), static_cast<int64_t>(a.shape(0)), static_cast<int64_t>(a.shape(1)), a.stride(0),
          a.stride(1)};
}

OutOf<int64_t> copied(const std::vector<int64_t>& values) {
  OutOf<int64_t> out = make_out<int64_t>(values.size());
  std::copy(values.begin(), values.end(), out.data());
  return out;
}

void bind_vectors(nb::module_& m) {
  using Own = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def(
      "dot",
      [](Vector u, Vector v, int threads) {
        need_size(v.size(), u.size(), "v");
        // A short one takes less time than to get the interpreter lock back.
        constexpr std::size_t kShort = std::size_t{1} << 14;
        if (u.size() < kShort) return dot(u.data(), v.data(), size_of(u), Context());
        double found = 0.0;
        run(threads, [&](const Context& c) { found = dot(u.data(), v.data(), size_of(u), c); });
        return found;
      },
      nb::arg("u"), nb::arg("v"), nb::arg("threads"), "The inner product.");
  m.def(
      "add_scaled",
      [](Vector u, double t, Vector v, int threads) {
        need_size(v.size(), u.size(), "v");
        Out out = make_out(u.size());
        run(threads, [&](const Context& c) {
          add_scaled(u.data(), t, v.data(), size_of(u), out.data(), c);
        });
        return out;
      },
      nb::arg("u").noconvert(), nb::arg("t"), nb::arg("v").noconvert(), nb::arg("threads"),
      "u + t v.");
  m.def(
      "add_scaled_to",
      [](Own u, double t, Vector v, int threads) {
        need_size(v.size(), u.size(), "v");
        run(threads,
            [&](const Context& c) { add_scaled(u.data(), t, v.data(), size_of(u), u.data(), c); });
      },
      nb::arg("u").noconvert(), nb::arg("t"), nb::arg("v").noconvert(), nb::arg("threads"),
      "Add t v to u.");
  m.def(
      "scaled",
      [](double t, Vector v, int threads) {
        Out out = make_out(v.size());
        run(threads, [&](const Context& c) { scale(t, v.data(), size_of(v), out.data(), c); });
        return out;
      },
      nb::arg("t"), nb::arg("v").noconvert(), nb::arg("threads"), "t v.");
  m.def(
      "scale",
      [](double t, Own v, int threads) {
        run(threads, [&](const Context& c) { scale(t, v.data(), size_of(v), v.data(), c); });
      },
      nb::arg("t"), nb::arg("v").noconvert(), nb::arg("threads"), "Multiply v by t.");
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

NB_MODULE(_core, m) {
  // A worker process may end while it still holds shards; that is no news for its user.
  nb::set_leak_warnings(false);
  m.doc() = "Native core of ranksvm.";
  m.def(
      "keep_memory", [] { shared_memory()->add_keeper(); },
      "Keep the memory of arrays that are freed, for others of the same size.");
  m.def(
      "release_memory", [] { shared_memory()->remove_keeper(); },
      "End what keep_memory began; when the last one ends, the memory is freed.");
  m.def(
      "instruction_set", [] { return std::string(simd_loops().name); },
      "The instruction set that the inner loops use on this processor.");

  nb::class_<PyOrder>(m, "Order", "The items of every query in relevance order.")
      .def(
          "__init__",
          [](PyOrder* self, Vector utility, Index rows, Index offsets,
             std::optional<Vector> item_weight, std::optional<Vector> query_weight, int threads) {
            if (offsets.size() < 2) throw std::invalid_argument("no queries");
            const std::size_t n_queries = offsets.size() - 1;
            need_size(utility.size(), rows.size(), "utility");
            if (offsets(n_queries) != static_cast<int64_t>(rows.size())) {
              throw std::invalid_argument("offsets do not end at the number of items");
            }
            if (item_weight) need_size(item_weight->size(), rows.size(), "item_weight");
            if (query_weight) need_size(query_weight->size(), n_queries, "query_weight");
            const double* item = item_weight ? item_weight->data() : nullptr;
            const double* query = query_weight ? query_weight->data() : nullptr;
            std::shared_ptr<Order> order;
            run(threads, [&](const Context& context) {
              order =
                  std::make_shared<Order>(utility.data(), rows.data(), offsets.data(),
                                          static_cast<int64_t>(n_queries), item, query, context);
            });
            new (self) PyOrder{std::move(order)};
          },
          nb::arg("utility").noconvert(), nb::arg("rows").noconvert(),
          nb::arg("offsets").noconvert(), nb::arg("item_weight").none() = nb::none(),
          nb::arg("query_weight").none() = nb::none(), nb::arg("threads") = 1)
      .def(
          "set_query_weight",
          [](PyOrder& o, Vector weight) {
            need_size(weight.size(), o.order->queries().size(), "query_weight");
            o.order->set_query_weight({weight.data(), weight.data() + weight.size()});
          },
          nb::arg("weight").noconvert(), "Replace the weights of the queries; before any plan.")
      .def(
          "release_memory", [](const PyOrder& o) { o.order->memory()->clear(); },
          "Free the memory of earlier plans, which later ones would use again.")
      .def_prop_ro(
          "has_grid", [](const PyOrder& o) { return o.order->has_grid(); },
          "Whether item weights, if any, are whole numbers, and not too large.")
      .def(
          "centred",
          [](const PyOrder& o, Vector x, bool on_grid, int threads) {
            need_size(x.size(), o.order->size(), "x");
            Out out = make_out(x.size());
            Magnitudes s;
            run(threads,
                [&](const Context& c) { s = o.order->centred(x.data(), on_grid, out.data(), c); });
            return std::make_pair(out, std::make_tuple(s.linear, s.square, s.linear_additions,
                                                       s.square_additions, s.moved));
          },
          nb::arg("x").noconvert(), nb::arg("on_grid"), nb::arg("threads"),
          "x minus a middle value of its query; and with query weight c, item weights v and their "
          "sum V the sums over queries of c V sum(v |x|) and c V sum(v x^2), and the same times "
          "how often a term of a sum over partners is rounded; and how far a grid moved x.")
      .def(
          "rows",
          [](const PyOrder& o) {
            OutOf<int64_t> out = make_out<int64_t>(static_cast<std::size_t>(o.order->size()));
            std::copy_n(o.order->row(), out.size(), out.data());
            return out;
          },
          "Rows query by query, each query from its worst item to its best.")
      .def(
          "factor_coefficients",
          [](const PyOrder& o, Table v, int threads) {
            need_size(v.shape(0), o.order->size(), "factors");
            Out out = make_out(v.shape(0));
            run(threads, [&](const Context& c) {
              factor_coefficients(*o.order, v.data(), static_cast<unsigned>(v.shape(1)), out.data(),
                                  c);
            });
            return out;
          },
          nb::arg("factors").noconvert(), nb::arg("threads"),
          "By row: coefficient in the sum over pairs of <v_better, v_worse> (x_better - x_worse); "
          "factors in the order of rows().")
      .def(
          "factor_gradient",
          [](const PyOrder& o, Table v, Vector t, int threads) {
            need_size(v.shape(0), o.order->size(), "factors");
            need_size(t.size(), o.order->size(), "t");
            Out out = make_out(v.size());
            run(threads, [&](const Context& c) {
              factor_gradient(*o.order, v.data(), t.data(), static_cast<unsigned>(v.shape(1)),
                              out.data(), c);
            });
            return out;
          },
          nb::arg("factors").noconvert(), nb::arg("t").noconvert(), nb::arg("threads"),
          "Derivative by the factors of the sum over pairs of <v_better, v_worse> "
          "(t_better - t_worse), in the order of rows() and flattened; t by row.")
      .def(
          "pairs",
          [](const PyOrder& o) {
            OutOf<int64_t> out = make_out<int64_t>(o.order->queries().size());
            for (std::size_t q = 0; q < out.size(); ++q) out.data()[q] = o.order->pairs(q);
            return out;
          },
          "Comparable pairs of every query.")
      .def(
          "pair_weights",
          [](const PyOrder& o) {
            Out out = make_out(o.order->queries().size());
            for (std::size_t q = 0; q < out.size(); ++q) out.data()[q] = o.order->pair_weight(q);
            return out;
          },
          "Sum over the pairs of every query of the products of item weights.")
      .def(
          "sort",
          [](const PyOrder& o, Vector scores, const std::string& counting, int threads) {
            need_size(scores.size(), o.order->size(), "scores");
            PySorted result{nullptr, counting_named(counting)};
            const bool all =
                result.counting != Counting::automatic && result.counting != Counting::pairs;
            run(threads, [&](const Context& context) {
              result.sorted = std::make_unique<Sorted>(o.order, scores.data(), all, context);
            });
            return result;
          },
          nb::arg("scores").noconvert(), nb::arg("counting"), nb::arg("threads"));

  nb::class_<PySorted>(m, "Sorted", "Scores in order, for plans of any margin.")
      .def(
          "plan",
          [](const PySorted& s, double margin, bool products, int threads) {
            if (!(margin > 0.0)) throw std::invalid_argument("margin must be positive");
            PyPlan result{nullptr, static_cast<std::size_t>(s.sorted->order().size())};
            run(threads, [&](const Context& context) {
              result.plan = make_plan(*s.sorted, margin, s.counting, products, context);
            });
            return result;
          },
          nb::arg("margin"), nb::arg("products"), nb::arg("threads"));

  nb::class_<PyPlan>(m, "Plan", "The violated pairs at fixed scores.")
      .def_prop_ro("total", [](const PyPlan& p) { return p.plan->total(); })
      .def(
          "imbalance",
          [](const PyPlan& p, int threads) {
            Out out = make_out(p.size);
            run(threads, [&](const Context& c) { p.plan->imbalance(out.data(), c); });
            return out;
          },
          nb::arg("threads"))
      .def(
          "counts",
          [](const PyPlan& p, int threads) {
            Out above = make_out(p.size), below = make_out(p.size);
            run(threads, [&](const Context& c) { p.plan->counts(above.data(), below.data(), c); });
            return std::make_pair(above, below);
          },
          nb::arg("threads"))
      .def(
          "laplacian",
          [](const PyPlan& p, Vector x, int threads) {
            need_size(x.size(), p.size, "x");
            Out out = make_out(p.size);
            run(threads, [&](const Context& c) { p.plan->laplacian(x.data(), out.data(), c); });
            return out;
          },
          nb::arg("x").noconvert(), nb::arg("threads"))
      .def(
          "score_laplacian",
          [](const PyPlan& p, Vector x, int threads) {
            need_size(x.size(), p.size, "scores");
            Out out = make_out(p.size);
            run(threads,
                [&](const Context& c) { p.plan->score_laplacian(x.data(), out.data(), c); });
            return out;
          },
          nb::arg("scores").noconvert(), nb::arg("threads"))
      .def(
          "sums",
          [](const PyPlan& p, Vector x, int threads) {
            need_size(x.size(), p.size, "x");
            Out above = make_out(p.size), below = make_out(p.size);
            run(threads,
                [&](const Context& c) { p.plan->sums(x.data(), above.data(), below.data(), c); });
            return std::make_pair(above, below);
          },
          nb::arg("x").noconvert(), nb::arg("threads"));

  m.def("depth_of_product", &depth_of_product, nb::arg("rows"), nb::arg("cols"),
        nb::arg("elements"), nb::arg("longest"), nb::arg("dense"), nb::arg("transposed"),
        "How often a term of an element of A x, or of A' x when transposed, is rounded at most.");
  bind_dense<double>(m);
  bind_dense<float>(m);
  bind_scatter<double>(m);
  bind_scatter<float>(m);
  bind_hash(m);
  bind_vectors(m);
  bind_finite<double>(m);
  bind_finite<float>(m);
  bind_sparse<double, int32_t>(m);
  bind_sparse<double, int64_t>(m);
  bind_sparse<float, int32_t>(m);
  bind_sparse<float, int64_t>(m);

  bind_text(m);
  bind_ranking(m);
  bind_kernel_matrix(m);
  bind_pair_list(m);
  bind_gather(m);
}
