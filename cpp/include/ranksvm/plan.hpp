// The violated pairs at fixed scores, ready for any number of products.
//
// Fix scores s and a margin. A comparable pair of a better item b and a worse item w is *violated*
// when s_b - s_w < margin (in floating point: the same expression everywhere, so that every way of
// counting agrees to the last pair). With pair weight = query weight x both item weights, by gain
// also x the difference of their gains, the four statistics of an item i are, over the violated
// pairs it is in,
//
//     above_i = sum of weights, partner better      sum_above_i(v) = sum of weight * v_partner
//     below_i = sum of weights, partner worse       sum_below_i(v) = likewise
//
// and the losses need them only as the total weight, the imbalance above - below, and the product
// with the graph Laplacian of the violated pairs: (above + below) v - sum_above(v) - sum_below(v).
//
// Gain differences are separable: with S the sum over the better partners of i, and g the gains,
// sum_above_i(v) = S(g v) - g_i S(v); with T the sum over its worse partners, sum_below_i(v) =
// g_i T(v) - T(g v). So a payload with gains is two payloads, and the Laplacian needs only the
// differences of the sums over better and over worse partners.
//
// By role, an item has a weight as the better one of a pair and another one as the worse one. With
// u and v for these, sum_above_i(x) = v_i S(u x) and sum_below_i(x) = u_i T(v x): two payloads,
// each of which is summed to one side only. A censored item, which is never the worse one, has v =
// 0.
#pragma once

#include <initializer_list>
#include <memory>

#include "ranksvm/buffer.hpp"
#include "ranksvm/order.hpp"
#include "ranksvm/parallel.hpp"

namespace ranksvm {

enum class Counting { automatic, tree, direct, joachims, pairs };

// Scores by position and, per query, in ascending order; shared by plans of different margins.
class Sorted {
 public:
  // Queries of at most kMaskItems items are sorted only when `all` is set.
  Sorted(std::shared_ptr<const Order> order, const double* scores, bool all,
         const Context& context);

  const Order& order() const { return *order_; }
  const std::shared_ptr<const Order>& shared_order() const { return order_; }
  const double* score() const { return score_.data(); }          // by position
  const double* ascending() const { return ascending_.data(); }  // by score order
  const uint32_t* position() const { return position_.data(); }  // score order -> position
  bool has(const Query& q) const { return all_ || q.size > kMaskItems; }

 private:
  std::shared_ptr<const Order> order_;
  Buffer<double> score_, ascending_;
  Buffer<uint32_t> position_;
  bool all_;
};

// What the losses ask of the violated pairs, wherever these come from.
class Plan {
 public:
  virtual ~Plan() = default;

  // The sum of the weights of the violated pairs.
  double total() const { return total_; }
  // By row: above - below.
  virtual void imbalance(double* out, const Context& context) const = 0;
  // By row: the weights of the violated pairs an item is in, partner better and partner worse.
  virtual void counts(double* above, double* below, const Context& context) const = 0;
  // By row: product of the Laplacian with x.
  virtual void laplacian(const double* x, double* out, const Context& context) const = 0;
  // The same for the scores that the plan was made at, centred (see Order::centred) by the caller.
  // Some plans know it already.
  virtual void score_laplacian(const double* scores, double* out, const Context& context) const {
    laplacian(scores, out, context);
  }
  // By row: the payload summed over the violated partners.
  virtual void sums(const double* x, double* above, double* below,
                    const Context& context) const = 0;

 protected:
  double total_ = 0.0;
};

// Plans of the pairs that an Order has: what they share.
class OrderPlan : public Plan {
 public:
  void imbalance(double* out, const Context& context) const override;
  void counts(double* above, double* below, const Context& context) const override;

 protected:
  explicit OrderPlan(std::shared_ptr<const Order> order)
      : order_(std::move(order)),
        above_(order_->size(), order_->memory()),
        below_(order_->size(), order_->memory()) {}

  // Calls body(q, context) for every query that has pairs: small ones in parallel, large ones with
  // all threads to themselves.
  template <class Body>
  void for_each_query(const Context& context, Body&& body) const {
    order_->for_each_query(context, [&](uint32_t q, const Context& inner) {
      if (order_->pairs(q) > 0) body(q, inner);
    });
  }
  // The same, with zeros in `out`, by row, for the items of all other queries.
  template <class Body>
  void for_each_query(const Context& context, std::initializer_list<double*> out,
                      Body&& body) const {
    order_->for_each_query(context, [&](uint32_t q, const Context& inner) {
      if (order_->pairs(q) > 0) return body(q, inner);
      const Query& query = order_->queries()[q];
      const uint32_t* row = order_->row() + query.begin;
      for (double* vector : out) {
        for (uint32_t i = 0; i < query.size; ++i) vector[row[i]] = 0.0;
      }
    });
  }
  // Turns sums over partner weights (in above_, below_; by gain times differences of gains) into
  // the counts: multiplies in the item's own weight, and sets total_. Items without a partner get
  // zeros.
  void finish_counts(const Context& context);

  std::shared_ptr<const Order> order_;
  // By position, without the weight of the query: without item weights they are exact.
  Buffer<double> above_, below_;

 private:
  // body(row, position, weight of the query).
  template <class Body>
  void for_each_row(const Context& context, Body&& body) const;
};

// Throws the error for scores that are infinite or NaN.
[[noreturn]] void refuse_scores();

// Margin > 0. The plan does not refer to `sorted` afterwards. `products` tells whether Laplacian
// products will be asked for; they work either way.
std::unique_ptr<Plan> make_plan(const Sorted& sorted, double margin, Counting counting,
                                bool products, const Context& context);

// The two families behind make_plan.
std::unique_ptr<Plan> make_radix_plan(const Sorted& sorted, double margin, const Context& context);
std::unique_ptr<Plan> make_classic_plan(const Sorted& sorted, double margin, Counting counting,
                                        bool products, const Context& context);

// Ranks of ascending scores: hi[p] = #{h : s_h - s_p < margin}, lo[h] = #{p : s_h - s_p >= margin}.
void margin_ranks(const double* ascending, uint32_t n, double margin, uint32_t* hi, uint32_t* lo,
                  const Context& context);

}  // namespace ranksvm
