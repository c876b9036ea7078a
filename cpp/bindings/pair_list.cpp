// Explicit pairs.
#include "ranksvm/pair_list.hpp"

#include <nanobind/stl/optional.h>

#include <memory>
#include <optional>

#include "common.hpp"

namespace ranksvm::bindings {

namespace {

struct PyPairList {
  std::shared_ptr<PairList> list;
};

}  // namespace

void bind_pair_list(nb::module_& m) {
  nb::class_<PyPairList>(m, "PairList", "Pairs of a better and a worse item, by item.")
      .def(
          "__init__",
          [](PyPairList* self, Index better, Index worse, std::optional<Vector> weight,
             int64_t n_items, int threads) {
            need_size(worse.size(), better.size(), "worse");
            if (weight) need_size(weight->size(), better.size(), "weight");
            std::shared_ptr<PairList> list;
            run(threads, [&](const Context& context) {
              list = std::make_shared<PairList>(
                  better.data(), worse.data(), weight ? weight->data() : nullptr,
                  static_cast<int64_t>(better.size()), n_items, context);
            });
            new (self) PyPairList{std::move(list)};
          },
          nb::arg("better").noconvert(), nb::arg("worse").noconvert(), nb::arg("weight").none(),
          nb::arg("n_items"), nb::arg("threads"))
      .def(
          "set_factor", [](PyPairList& p, double factor) { p.list->set_factor(factor); },
          nb::arg("factor"), "Multiply all weights by this; before any plan.")
      .def(
          "contradictions",
          [](const PyPairList& p, int threads) {
            int64_t count = 0;
            run(threads, [&](const Context& c) { count = count_contradictions(*p.list, c); });
            return count;
          },
          nb::arg("threads"), "Number of pairs of items that the list has both ways.")
      .def(
          "connected",
          [](const PyPairList& p, int threads) {
            auto out = make_out<int64_t>(p.list->size());
            run(threads, [&](const Context& c) { connected_items(*p.list, out.data(), c); });
            return out;
          },
          nb::arg("threads"), "By item: the first of the items that pairs connect it with.")
      .def(
          "plan",
          [](const PyPairList& p, Vector scores, double margin, int threads) {
            need_size(scores.size(), p.list->size(), "scores");
            if (!(margin > 0.0)) throw std::invalid_argument("margin must be positive");
            PyPlan result{nullptr, scores.size()};
            run(threads, [&](const Context& context) {
              result.plan = make_pair_list_plan(p.list, scores.data(), margin, context);
            });
            return result;
          },
          nb::arg("scores").noconvert(), nb::arg("margin"), nb::arg("threads"));
}

}  // namespace ranksvm::bindings
