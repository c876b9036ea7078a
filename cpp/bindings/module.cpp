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
#include "ranksvm/simd.hpp"

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
             std::optional<Vector> item_weight, std::optional<Vector> query_weight, int threads,
             bool by_gain, std::optional<Vector> worse_weight) {
            if (offsets.size() < 2) throw std::invalid_argument("no queries");
            const std::size_t n_queries = offsets.size() - 1;
            need_size(utility.size(), rows.size(), "utility");
            if (offsets(n_queries) != static_cast<int64_t>(rows.size())) {
              throw std::invalid_argument("offsets do not end at the number of items");
            }
            if (item_weight) need_size(item_weight->size(), rows.size(), "item_weight");
            if (query_weight) need_size(query_weight->size(), n_queries, "query_weight");
            if (worse_weight) need_size(worse_weight->size(), rows.size(), "worse_weight");
            const double* worse = worse_weight ? worse_weight->data() : nullptr;
            const double* item = item_weight ? item_weight->data() : nullptr;
            const double* query = query_weight ? query_weight->data() : nullptr;
            std::shared_ptr<Order> order;
            run(threads, [&](const Context& context) {
              order = std::make_shared<Order>(utility.data(), rows.data(), offsets.data(),
                                              static_cast<int64_t>(n_queries), item, query, context,
                                              by_gain, worse);
            });
            new (self) PyOrder{std::move(order)};
          },
          nb::arg("utility").noconvert(), nb::arg("rows").noconvert(),
          nb::arg("offsets").noconvert(), nb::arg("item_weight").none() = nb::none(),
          nb::arg("query_weight").none() = nb::none(), nb::arg("threads") = 1,
          nb::arg("by_gain") = false, nb::arg("worse_weight").none() = nb::none())
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
          "Whether item weights and gains, if any, are whole numbers, and not too large.")
      .def(
          "largest_gains",
          [](const PyOrder& o) {
            Out out = make_out(o.order->queries().size());
            for (std::size_t q = 0; q < out.size(); ++q) out.data()[q] = o.order->largest_gain(q);
            return out;
          },
          "The largest gain of every query; 1 without gains.")
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
          "x minus a middle value of its query; and with query weight c, item weights v (the "
          "larger "
          "one of both roles) and their sum V, and the largest gain R (1 without gains) the sums "
          "over queries of "
          "c R V sum(v |x|) and c R V sum(v x^2), and the same times how often a term of a sum "
          "over partners is rounded; and how far a grid moved x.")
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
          "Comparable pairs of every query; by role, those of positive weight.")
      .def(
          "pair_weights",
          [](const PyOrder& o) {
            Out out = make_out(o.order->queries().size());
            for (std::size_t q = 0; q < out.size(); ++q) out.data()[q] = o.order->pair_weight(q);
            return out;
          },
          "Sum over the pairs of every query of the products of item weights, by gain times the "
          "difference of the gains.")
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

  bind_products(m);
  bind_vectors(m);
  bind_text(m);
  bind_ranking(m);
  bind_kernel_matrix(m);
  bind_pair_list(m);
  bind_lambda_pairs(m);
  bind_gather(m);
  bind_columns(m);
  bind_query_features(m);
}
