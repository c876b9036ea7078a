// Rankings inside queries.
#include "ranksvm/ranking.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "common.hpp"

namespace ranksvm::bindings {

namespace {

// Returns the number of groups.
int64_t need_offsets(const Index& offsets, std::size_t n_items, const char* what) {
  const auto wrong = [what](const char* why) {
    throw std::invalid_argument(std::string(what) + " " + why);
  };
  if (offsets.size() == 0 || offsets(0) != 0) wrong("do not start at 0");
  for (std::size_t q = 0; q + 1 < offsets.size(); ++q) {
    if (offsets(q + 1) < offsets(q)) wrong("do not ascend");
  }
  if (offsets(offsets.size() - 1) != static_cast<int64_t>(n_items)) {
    wrong("do not end at the number of items");
  }
  return static_cast<int64_t>(offsets.size()) - 1;
}

void need_rows(const Index& rows, std::size_t n_items) {
  bool inside = true;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    inside &= static_cast<uint64_t>(rows.data()[i]) < n_items;
  }
  if (!inside) throw std::invalid_argument("rows holds a number that is no row");
}

}  // namespace

void bind_ranking(nb::module_& m) {
  m.def(
      "rank_items",
      [](Vector scores, Index rows, Index offsets, int threads) {
        need_size(rows.size(), scores.size(), "rows");
        need_rows(rows, scores.size());
        const int64_t queries = need_offsets(offsets, rows.size(), "offsets");
        auto order = make_out<int64_t>(rows.size());
        run(threads, [&](const Context& context) {
          rank_items(scores.data(), rows.data(), offsets.data(), queries, order.data(), context);
        });
        return order;
      },
      nb::arg("scores").noconvert(), nb::arg("rows").noconvert(), nb::arg("offsets").noconvert(),
      nb::arg("threads"),
      "The rows of each query, highest score first; equal scores in the order of `rows`.");
  m.def(
      "rank_first",
      [](Vector scores, Index rows, Index offsets, Index top_offsets, int threads) {
        need_size(rows.size(), scores.size(), "rows");
        need_rows(rows, scores.size());
        const int64_t queries = need_offsets(offsets, rows.size(), "offsets");
        need_size(top_offsets.size(), offsets.size(), "top_offsets");
        const int64_t n_ranks = top_offsets(top_offsets.size() - 1);
        need_offsets(top_offsets, static_cast<std::size_t>(n_ranks), "top_offsets");
        for (int64_t q = 0; q < queries; ++q) {
          if (top_offsets(q + 1) - top_offsets(q) > offsets(q + 1) - offsets(q)) {
            throw std::invalid_argument("a query has fewer items than first ranks");
          }
        }
        auto order = make_out<int64_t>(static_cast<std::size_t>(n_ranks));
        run(threads, [&](const Context& context) {
          rank_first(scores.data(), rows.data(), offsets.data(), queries, top_offsets.data(),
                     order.data(), context);
        });
        return order;
      },
      nb::arg("scores").noconvert(), nb::arg("rows").noconvert(), nb::arg("offsets").noconvert(),
      nb::arg("top_offsets").noconvert(), nb::arg("threads"),
      "The first ranks of rank_items: top_offsets[q + 1] - top_offsets[q] of query q.");
  m.def(
      "running_sums",
      [](Vector x, Index offsets, int threads) {
        const int64_t queries = need_offsets(offsets, x.size(), "offsets");
        Out out = make_out(x.size());
        run(threads, [&](const Context& context) {
          running_sums(x.data(), offsets.data(), queries, out.data(), context);
        });
        return out;
      },
      nb::arg("x").noconvert(), nb::arg("offsets").noconvert(), nb::arg("threads"),
      "Cumulative sums that start anew in each query.");
  m.def(
      "weighted_sums",
      [](Vector values, Index order, Index offsets, Index limits, Vector weights, int threads) {
        const int64_t queries = need_offsets(offsets, order.size(), "offsets");
        need_rows(order, values.size());
        need_size(limits.size(), static_cast<std::size_t>(queries), "limits");
        for (int64_t q = 0; q < queries; ++q) {
          if (std::min(offsets(q + 1) - offsets(q), limits(q)) > size_of(weights)) {
            throw std::invalid_argument("a query has more ranks than there are weights");
          }
        }
        Out out = make_out(static_cast<std::size_t>(queries));
        run(threads, [&](const Context& context) {
          weighted_sums(values.data(), order.data(), offsets.data(), queries, limits.data(),
                        weights.data(), out.data(), context);
        });
        return out;
      },
      nb::arg("values").noconvert(), nb::arg("order").noconvert(), nb::arg("offsets").noconvert(),
      nb::arg("limits").noconvert(), nb::arg("weights").noconvert(), nb::arg("threads"),
      "By query: sum of values[order] * weights over the first limits[q] ranks.");
  m.def(
      "precision_sums",
      [](Vector labels, double above, Index order, Index offsets, Index limits, int threads) {
        const int64_t queries = need_offsets(offsets, order.size(), "offsets");
        need_rows(order, labels.size());
        need_size(limits.size(), static_cast<std::size_t>(queries), "limits");
        Out out = make_out(static_cast<std::size_t>(queries));
        auto relevant = make_out<int64_t>(static_cast<std::size_t>(queries));
        run(threads, [&](const Context& context) {
          precision_sums(labels.data(), above, order.data(), offsets.data(), queries, limits.data(),
                         out.data(), relevant.data(), context);
        });
        return std::make_pair(out, relevant);
      },
      nb::arg("labels").noconvert(), nb::arg("above"), nb::arg("order").noconvert(),
      nb::arg("offsets").noconvert(), nb::arg("limits").noconvert(), nb::arg("threads"),
      "By query: sum of the precisions at the ranks of relevant items, and their number.");
  m.def(
      "first_relevant",
      [](Vector labels, double above, Vector scores, Index rows, Index offsets, Index limits,
         int threads) {
        need_size(scores.size(), labels.size(), "scores");
        need_rows(rows, labels.size());
        const int64_t queries = need_offsets(offsets, rows.size(), "offsets");
        need_size(limits.size(), static_cast<std::size_t>(queries), "limits");
        auto rank = make_out<int64_t>(static_cast<std::size_t>(queries));
        run(threads, [&](const Context& context) {
          first_relevant(labels.data(), above, scores.data(), rows.data(), offsets.data(), queries,
                         limits.data(), rank.data(), context);
        });
        return rank;
      },
      nb::arg("labels").noconvert(), nb::arg("above"), nb::arg("scores").noconvert(),
      nb::arg("rows").noconvert(), nb::arg("offsets").noconvert(), nb::arg("limits").noconvert(),
      nb::arg("threads"),
      "By query: rank of the first relevant item; 0 beyond limits[q], -1 if there is none.");
  m.def(
      "count_ranked_pairs",
      [](Vector levels, Vector scores, Index order, Index offsets, int threads) {
        need_size(scores.size(), levels.size(), "scores");
        need_rows(order, levels.size());
        const int64_t queries = need_offsets(offsets, order.size(), "offsets");
        const auto count = [queries] {
          return make_out<int64_t>(static_cast<std::size_t>(queries));
        };
        auto comparable = count(), wrong = count(), tied = count(), equal = count();
        run(threads, [&](const Context& context) {
          count_ranked_pairs(levels.data(), scores.data(), order.data(), offsets.data(), queries,
                             {comparable.data(), wrong.data(), tied.data(), equal.data()}, context);
        });
        return std::make_tuple(comparable, wrong, tied, equal);
      },
      nb::arg("levels").noconvert(), nb::arg("scores").noconvert(), nb::arg("order").noconvert(),
      nb::arg("offsets").noconvert(), nb::arg("threads"),
      "By query: pairs with different levels; of these, in the wrong order and with equal scores; "
      "all pairs with equal scores.");
  m.def(
      "cascade",
      [](Vector stop, Index offsets, Index ties, int64_t limit, int threads) {
        const int64_t queries = need_offsets(offsets, stop.size(), "offsets");
        const int64_t n_ties = need_offsets(ties, stop.size(), "ties");
        Out out = make_out(stop.size());
        run(threads, [&](const Context& context) {
          cascade(stop.data(), offsets.data(), queries, ties.data(), n_ties, limit, out.data(),
                  context);
        });
        return out;
      },
      nb::arg("stop").noconvert(), nb::arg("offsets").noconvert(), nb::arg("ties").noconvert(),
      nb::arg("limit"), nb::arg("threads"),
      "Probability that a reader stops at each rank, averaged over the orders inside ties.");
}

}  // namespace ranksvm::bindings
