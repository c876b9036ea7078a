// Rankings inside queries.
#include "ranksvm/ranking.hpp"

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
      "count_inversions",
      [](Vector x, Index offsets, int threads) {
        const int64_t queries = need_offsets(offsets, x.size(), "offsets");
        auto count = make_out<int64_t>(static_cast<std::size_t>(queries));
        run(threads, [&](const Context& context) {
          count_inversions(x.data(), offsets.data(), queries, count.data(), context);
        });
        return count;
      },
      nb::arg("x").noconvert(), nb::arg("offsets").noconvert(), nb::arg("threads"),
      "By query: pairs of positions a < b with x[a] < x[b].");
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
