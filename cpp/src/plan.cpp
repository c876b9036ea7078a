#include "ranksvm/plan.hpp"

#include <algorithm>
#include <stdexcept>

#include "ranksvm/sort.hpp"

namespace ranksvm {
void refuse_scores() {
  throw std::overflow_error(
      "scores too large for float64: some are infinite or NaN and have no order. Scale the "
      "features down (for example with sklearn.preprocessing.StandardScaler).");
}

Sorted::Sorted(std::shared_ptr<const Order> order, const double* scores, bool all,
               const Context& context)
    : order_(std::move(order)),
      score_(order_->size(), order_->memory()),
      ascending_(order_->size(), order_->memory()),
      position_(order_->size(), order_->memory()),
      all_(all) {
  const uint32_t* row = order_->row();
  for_each_chunk(order_->size(), context, [&](std::size_t, int64_t begin, int64_t end) {
    double check = 0.0;  // NaN as soon as one score is not finite
    for (int64_t i = begin; i < end; ++i) {
      score_[i] = scores[row[i]];
      check += score_[i] * 0.0;
    }
    if (check != 0.0) refuse_scores();
  });
  order_->for_each_query(context, [&](uint32_t q, const Context& inner) {
    const Query& query = order_->queries()[q];
    if (order_->pairs(q) == 0 || !has(query)) return;
    argsort(score_.data() + query.begin, query.size, position_.data() + query.begin,
            ascending_.data() + query.begin, order_->memory(), inner);
  });
}

void margin_ranks(const double* s, uint32_t n, double margin, uint32_t* hi, uint32_t* lo,
                  const Context& context) {
  // lo[h] for one h, by bisection: where a chunk of the merge begins.
  auto lower_rank = [&](uint32_t h) {
    return static_cast<uint32_t>(
        std::partition_point(s, s + n, [&](double v) { return s[h] - v >= margin; }) - s);
  };
  const std::size_t chunks = n <= 2 * kChunk ? 1 : (n + kChunk - 1) / kChunk;
  context.parallel_for(chunks, [&](std::size_t chunk, const Context&) {
    uint32_t h = chunks == 1 ? 0 : static_cast<uint32_t>(chunk * kChunk);
    const uint32_t end = chunk + 1 == chunks ? n : h + kChunk;
    uint32_t p = h == 0 ? 0 : lower_rank(h);
    // Items from here on get their upper rank from the next chunk.
    const uint32_t rest = end == n ? n : lower_rank(end);
    // One merge gives both ranks. An equal score is always within the margin, so p <= h.
    while (h < end && p < rest) {
      lo[h] = p;
      hi[p] = h;
      const bool within = s[h] - s[p] < margin;
      h += within;
      p += !within;
    }
    for (; h < end; ++h) lo[h] = p;
    for (; p < rest; ++p) hi[p] = end;
  });
}

void OrderPlan::finish_counts(const Context& context) {
  const uint32_t* row = order_->row();
  std::vector<double> total(order_->queries().size(), 0.0);
  order_->for_each_query(context, [&](uint32_t q, const Context& inner) {
    const Query& query = order_->queries()[q];
    const bool empty = order_->pairs(q) == 0;
    std::vector<double> parts(query.size <= kChunk ? 0 : (query.size + kChunk - 1) / kChunk);
    for_each_chunk(query.size, inner, [&](std::size_t chunk, int64_t begin, int64_t end) {
      double sum = 0.0;
      for (int64_t position = query.begin + begin; position < query.begin + end; ++position) {
        if (empty) {
          above_[position] = below_[position] = 0.0;
        } else if (order_->weighted() || order_->by_gain()) {
          // Differences of rounded sums may be slightly negative.
          const uint32_t r = row[position];
          above_[position] = order_->worse_weight(r) * std::max(0.0, above_[position]);
          below_[position] = order_->item_weight(r) * std::max(0.0, below_[position]);
        }
        sum += above_[position];
      }
      (parts.empty() ? total[q] : parts[chunk]) = sum;
    });
    for (const double part : parts) total[q] += part;
    total[q] *= order_->query_weight(q);
  });
  total_ = 0.0;
  for (const double t : total) total_ += t;
}

template <class Body>
void OrderPlan::for_each_row(const Context& context, Body&& body) const {
  const uint32_t *row = order_->row(), *position = order_->position();
  if (position != nullptr) {
    const double weight = order_->query_weight(0);
    return for_each_chunk(order_->size(), context, [&](std::size_t, int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) body(r, position[r], weight);
    });
  }
  if (!order_->query_weighted()) {
    return for_each_chunk(order_->size(), context, [&](std::size_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(row[i], i, 1.0);
    });
  }
  order_->for_each_query(context, [&](uint32_t q, const Context& inner) {
    const Query& query = order_->queries()[q];
    const double weight = order_->query_weight(q);
    for_each_chunk(query.size, inner, [&](std::size_t, int64_t begin, int64_t end) {
      for (int64_t i = query.begin + begin; i < query.begin + end; ++i) body(row[i], i, weight);
    });
  });
}

void OrderPlan::imbalance(double* out, const Context& context) const {
  for_each_row(context, [&](int64_t row, int64_t i, double weight) {
    out[row] = weight * (above_[i] - below_[i]);
  });
}

void OrderPlan::counts(double* above, double* below, const Context& context) const {
  for_each_row(context, [&](int64_t row, int64_t i, double weight) {
    above[row] = weight * above_[i];
    below[row] = weight * below_[i];
  });
}

std::unique_ptr<Plan> make_plan(const Sorted& sorted, double margin, Counting counting,
                                bool products, const Context& context) {
  if (counting == Counting::automatic) return make_radix_plan(sorted, margin, context);
  return make_classic_plan(sorted, margin, counting, products, context);
}

}  // namespace ranksvm
