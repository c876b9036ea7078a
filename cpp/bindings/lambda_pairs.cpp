// The pairs of a ranking with the weights of LambdaRank.
#include "ranksvm/lambda_pairs.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "common.hpp"

namespace ranksvm::bindings {

namespace {

RankedGains ranked_gains(const Vector& gain, const std::optional<Vector>& weight,
                         const Index& order, const Index& offsets, int64_t truncation,
                         const Vector& discount, const Vector& query_factor) {
  if (offsets.size() == 0 || offsets(offsets.size() - 1) != size_of(order) || offsets(0) != 0) {
    throw std::invalid_argument("offsets do not fit the order");
  }
  const std::size_t n_queries = offsets.size() - 1;
  for (std::size_t q = 0; q < n_queries; ++q) {
    const int64_t n = offsets(q + 1) - offsets(q);
    if (n < 0 || n > size_of(discount)) throw std::invalid_argument("a query has no discounts");
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order(i) < 0 || order(i) >= size_of(gain)) throw std::invalid_argument("order: no row");
  }
  if (weight) need_size(weight->size(), gain.size(), "weight");
  need_size(query_factor.size(), n_queries, "query_factor");
  return {gain.data(),
          weight ? weight->data() : nullptr,
          order.data(),
          offsets.data(),
          static_cast<int64_t>(n_queries),
          truncation,
          discount.data(),
          query_factor.data()};
}

}  // namespace

void bind_lambda_pairs(nb::module_& m) {
  m.def(
      "count_lambda_pairs",
      [](Vector gain, Index order, Index offsets, int64_t truncation, Vector discount,
         Vector query_factor, int threads) {
        const RankedGains ranked =
            ranked_gains(gain, std::nullopt, order, offsets, truncation, discount, query_factor);
        auto counts = make_out<int64_t>(static_cast<std::size_t>(ranked.n_queries));
        run(threads,
            [&](const Context& context) { count_lambda_pairs(ranked, counts.data(), context); });
        return counts;
      },
      nb::arg("gain").noconvert(), nb::arg("order").noconvert(), nb::arg("offsets").noconvert(),
      nb::arg("truncation"), nb::arg("discount").noconvert(), nb::arg("query_factor").noconvert(),
      nb::arg("threads"),
      "By query: the pairs of different gains with an item among the first ranks.");
  m.def(
      "list_lambda_pairs",
      [](Vector gain, std::optional<Vector> weight, Index order, Index offsets, int64_t truncation,
         Vector discount, Vector query_factor, Index starts, int threads) {
        const RankedGains ranked =
            ranked_gains(gain, weight, order, offsets, truncation, discount, query_factor);
        need_size(starts.size(), offsets.size(), "starts");
        std::vector<int64_t> counts(static_cast<std::size_t>(ranked.n_queries));
        run(threads,
            [&](const Context& context) { count_lambda_pairs(ranked, counts.data(), context); });
        for (std::size_t q = 0; q < counts.size(); ++q) {
          if (starts(0) != 0 || starts(q + 1) - starts(q) != counts[q]) {
            throw std::invalid_argument("starts do not fit the numbers of pairs");
          }
        }
        const auto n_pairs = static_cast<std::size_t>(starts(starts.size() - 1));
        auto better = make_out<int64_t>(n_pairs), worse = make_out<int64_t>(n_pairs);
        Out weights = make_out(n_pairs);
        run(threads, [&](const Context& context) {
          list_lambda_pairs(ranked, starts.data(), better.data(), worse.data(), weights.data(),
                            context);
        });
        return std::make_tuple(better, worse, weights);
      },
      nb::arg("gain").noconvert(), nb::arg("weight").none(), nb::arg("order").noconvert(),
      nb::arg("offsets").noconvert(), nb::arg("truncation"), nb::arg("discount").noconvert(),
      nb::arg("query_factor").noconvert(), nb::arg("starts").noconvert(), nb::arg("threads"),
      "These pairs and their weights; those of query q from starts[q] on.");
}

}  // namespace ranksvm::bindings
