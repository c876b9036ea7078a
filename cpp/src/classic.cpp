// The counting algorithms of the literature, each complete for counts and sums:
//
//   tree      Airola et al., Algorithm 3: red-black tree over the levels, two sweeps
//   direct    Lee & Lin, supplement II.1: one counter per level, O(n k)
//   joachims  Lee & Lin, supplement Algorithm I: one pass per level, O(n) memory
//   pairs     all comparable pairs: PairRSVM, and the truth
//
// All work on one query, on payloads interleaved kPayloads per item, by position.
#include <algorithm>
#include <array>
#include <cmath>

#include "ranksvm/plan.hpp"
#include "ranksvm/rb_tree.hpp"

namespace ranksvm {
namespace {

// One query at fixed scores. Ranks hi and lo are by score order, see margin_ranks.
struct Frozen {
  uint32_t n, levels;
  const uint32_t* level;        // by position
  const uint32_t* level_start;  // [levels + 1]
  const uint32_t* position;     // score order -> position
  const uint32_t* hi;
  const uint32_t* lo;
  const double* score;  // by position
  double margin;
};

// Steps of an O(n) body between two looks for an interrupt.
constexpr uint32_t kInterruptSteps = 256;

template <unsigned K>
using Payload = std::array<double, K>;

// The payloads that the weights of pairs take: of an item, of which the weights are part; and the
// sums over its better and worse partners, from those of the payloads, without its own weight.
struct PlainWeights {
  static constexpr unsigned kPayloads = 1;
  static Payload<1> lifted(const Order& order, uint32_t row, double x) {
    return {order.item_weight(row) * x};
  }
  static double over_better(const Order&, uint32_t, const double* sum) { return sum[0]; }
  static double over_worse(const Order&, uint32_t, const double* sum) { return sum[0]; }
};
// A payload, and the payload times the gain of its item.
struct GainWeights {
  static constexpr unsigned kPayloads = 2;
  static Payload<2> lifted(const Order& order, uint32_t row, double x) {
    const double value = order.item_weight(row) * x;
    return {value, order.gain(row) * value};
  }
  static double over_better(const Order& order, uint32_t row, const double* sum) {
    return sum[1] - order.gain(row) * sum[0];
  }
  static double over_worse(const Order& order, uint32_t row, const double* sum) {
    return order.gain(row) * sum[0] - sum[1];
  }
};
// A payload with the weight of the better item, and one with that of the worse item.
struct RoleWeights {
  static constexpr unsigned kPayloads = 2;
  static Payload<2> lifted(const Order& order, uint32_t row, double x) {
    return {order.item_weight(row) * x, order.worse_weight(row) * x};
  }
  static double over_better(const Order&, uint32_t, const double* sum) { return sum[0]; }
  static double over_worse(const Order&, uint32_t, const double* sum) { return sum[1]; }
};

template <unsigned K>
void accumulate(Payload<K>& to, const Payload<K>& from) {
  for (unsigned k = 0; k < K; ++k) to[k] += from[k];
}

// The element nearest to the centre of some: differences from it stay on the grid they are on.
template <class Value>
double middle_of(uint32_t n, Value value) {
  const double centre = centre_of(n, value);
  double middle = value(0);
  for (uint32_t i = 1; i < n; ++i) {
    if (std::abs(value(i) - centre) < std::abs(middle - centre)) middle = value(i);
  }
  return middle;
}

struct TreeCounting {
  template <unsigned K>
  static void run(const Frozen& f, const Payload<K>* payload, Payload<K>* above, Payload<K>* below,
                  const Context& context) {
    RedBlackTree<K> tree;
    tree.reserve(f.levels);
    auto insert = [&](uint32_t h) {  // one item may bring in all the others
      if (h % (64 * kInterruptSteps) == 0) context.check_interrupt();
      tree.insert(f.level[f.position[h]], payload[f.position[h]]);
    };
    for (uint32_t p = 0, h = 0; p < f.n; ++p) {
      if (p % (64 * kInterruptSteps) == 0) context.check_interrupt();
      for (; h < f.hi[p]; ++h) insert(h);
      above[f.position[p]] = tree.larger(f.level[f.position[p]]).sum;
    }
    tree.clear();
    for (uint32_t p = f.n, h = f.n; p-- > 0;) {
      if (p % (64 * kInterruptSteps) == 0) context.check_interrupt();
      for (; h > f.lo[p]; --h) insert(h - 1);
      below[f.position[p]] = tree.smaller(f.level[f.position[p]]).sum;
    }
  }
};

struct DirectCounting {
  template <unsigned K>
  static void run(const Frozen& f, const Payload<K>* payload, Payload<K>* above, Payload<K>* below,
                  const Context& context) {
    std::vector<Payload<K>> counter(f.levels, Payload<K>{});
    for (uint32_t p = 0, h = 0; p < f.n; ++p) {
      if (p % kInterruptSteps == 0) context.check_interrupt();
      for (; h < f.hi[p]; ++h)
        accumulate<K>(counter[f.level[f.position[h]]], payload[f.position[h]]);
      Payload<K> sum{};
      for (uint32_t l = f.level[f.position[p]] + 1; l < f.levels; ++l)
        accumulate<K>(sum, counter[l]);
      above[f.position[p]] = sum;
    }
    std::fill(counter.begin(), counter.end(), Payload<K>{});
    for (uint32_t p = f.n, h = f.n; p-- > 0;) {
      if (p % kInterruptSteps == 0) context.check_interrupt();
      for (; h > f.lo[p]; --h) {
        accumulate<K>(counter[f.level[f.position[h - 1]]], payload[f.position[h - 1]]);
      }
      Payload<K> sum{};
      for (uint32_t l = 0; l < f.level[f.position[p]]; ++l) accumulate<K>(sum, counter[l]);
      below[f.position[p]] = sum;
    }
  }
};

struct JoachimsCounting {
  template <unsigned K>
  static void run(const Frozen& f, const Payload<K>* payload, Payload<K>* above, Payload<K>* below,
                  const Context& context) {
    std::fill(below, below + f.n, Payload<K>{});
    for (uint32_t level = 0; level < f.levels; ++level) {
      if (level % (kInterruptSteps / 16) == 0) context.check_interrupt();
      // Better items met so far, and the items of this level not yet passed.
      Payload<K> better{}, waiting{};
      for (uint32_t i = f.level_start[level]; i < f.level_start[level + 1]; ++i) {
        accumulate<K>(waiting, payload[i]);
      }
      for (uint32_t p = 0, h = 0; p < f.n; ++p) {
        const uint32_t own = f.position[p];
        if (f.level[own] != level) continue;
        for (; h < f.hi[p]; ++h) {
          const uint32_t other = f.position[h];
          if (f.level[other] > level) {
            accumulate<K>(better, payload[other]);
            accumulate<K>(below[other], waiting);
          }
        }
        above[own] = better;
        for (unsigned k = 0; k < K; ++k) waiting[k] -= payload[own][k];
      }
    }
  }
};

struct AllPairsCounting {
  template <unsigned K>
  static void run(const Frozen& f, const Payload<K>* payload, Payload<K>* above, Payload<K>* below,
                  const Context& context) {
    std::fill(above, above + f.n, Payload<K>{});
    std::fill(below, below + f.n, Payload<K>{});
    const uint32_t interrupt_steps = std::max(1U, (1U << 24) / f.n);
    for (uint32_t worse = 0; worse < f.n; ++worse) {
      if (worse % interrupt_steps == 0) context.check_interrupt();
      for (uint32_t better = f.level_start[f.level[worse] + 1]; better < f.n; ++better) {
        if (f.score[better] - f.score[worse] < f.margin) {
          accumulate<K>(above[worse], payload[better]);
          accumulate<K>(below[better], payload[worse]);
        }
      }
    }
  }
};

template <class Algorithm>
class ClassicPlan final : public OrderPlan {
 public:
  ClassicPlan(const Sorted& sorted, double margin, bool products, const Context& context)
      : OrderPlan(sorted.shared_order()),
        margin_(margin),
        hi_(order_->size(), order_->memory()),
        lo_(order_->size(), order_->memory()),
        position_(order_->size(), order_->memory()),
        score_(order_->size(), order_->memory()),
        score_sum_(products ? order_->size() : 0, order_->memory()) {
    for_each_query(context, [&](uint32_t q, const Context& inner) {
      const Query& query = order_->queries()[q];
      const int64_t at = query.begin;
      std::copy_n(sorted.score() + at, query.size, score_.data() + at);
      if (sorted.has(query)) {
        std::copy_n(sorted.position() + at, query.size, position_.data() + at);
        margin_ranks(sorted.ascending() + at, query.size, margin, hi_.data() + at, lo_.data() + at,
                     inner);
      }
      with_weights([&](auto weights) { count<decltype(weights)>(q, products, inner); });
    });
    finish_counts(context);
  }

  void score_laplacian(const double* scores, double* out, const Context& context) const override {
    if (score_sum_.size() == 0) return laplacian(scores, out, context);
    const uint32_t* rows = order_->row();
    for_each_query(context, {out}, [&](uint32_t q, const Context&) {
      const Query& query = order_->queries()[q];
      for (int64_t i = query.begin; i < query.begin + query.size; ++i) {
        out[rows[i]] = order_->query_weight(q) * score_sum_[i];
      }
    });
  }

  void laplacian(const double* x, double* out, const Context& context) const override {
    for_each_query(context, {out}, [&](uint32_t q, const Context& inner) {
      with_weights([&](auto weights) { laplacian<decltype(weights)>(q, x, out, inner); });
    });
  }

  void sums(const double* x, double* above, double* below, const Context& context) const override {
    for_each_query(context, {above, below}, [&](uint32_t q, const Context& inner) {
      with_weights([&](auto weights) { sums<decltype(weights)>(q, x, above, below, inner); });
    });
  }

 private:
  // Calls body with the kind of weights that the pairs have.
  template <class Body>
  void with_weights(Body&& body) const {
    if (order_->by_gain()) return body(GainWeights{});
    if (order_->by_role()) return body(RoleWeights{});
    body(PlainWeights{});
  }

  template <class W, unsigned P = W::kPayloads>
  void count(uint32_t q, bool products, const Context& context) {
    const Order& order = *order_;
    const Query& query = order.queries()[q];
    const int64_t at = query.begin;
    const uint32_t* row = order.row() + at;
    if (!products) {
      run<P>(
          q, context, [&](uint32_t i) { return W::lifted(order, row[i], 1.0); },
          [&](uint32_t i, const Payload<P>& above, const Payload<P>& below) {
            above_[at + i] = W::over_better(order, row[i], above.data());
            below_[at + i] = W::over_worse(order, row[i], below.data());
          });
      return;
    }
    // Counts and the sums of the scores in one sweep, as the papers do it.
    const double middle = middle_of(query.size, [&](uint32_t i) { return score_[at + i]; });
    run<2 * P>(
        q, context,
        [&](uint32_t i) {
          const Payload<P> one = W::lifted(order, row[i], 1.0);
          const Payload<P> score = W::lifted(order, row[i], score_[at + i] - middle);
          Payload<2 * P> both;
          std::copy(score.begin(), score.end(), std::copy(one.begin(), one.end(), both.begin()));
          return both;
        },
        [&](uint32_t i, const Payload<2 * P>& above, const Payload<2 * P>& below) {
          const uint32_t r = row[i];
          const double own = score_[at + i] - middle;
          above_[at + i] = W::over_better(order, r, above.data());
          below_[at + i] = W::over_worse(order, r, below.data());
          const double up = above_[at + i] * own - W::over_better(order, r, above.data() + P);
          const double down = below_[at + i] * own - W::over_worse(order, r, below.data() + P);
          score_sum_[at + i] = order.worse_weight(r) * up + order.item_weight(r) * down;
        });
  }

  template <class W, unsigned P = W::kPayloads>
  void laplacian(uint32_t q, const double* x, double* out, const Context& context) const {
    const Order& order = *order_;
    const int64_t at = order.queries()[q].begin;
    const uint32_t* row = order.row() + at;
    const double middle = middle_of(order.queries()[q].size, [&](uint32_t i) { return x[row[i]]; });
    const double weight = order.query_weight(q);
    run<P>(
        q, context, [&](uint32_t i) { return W::lifted(order, row[i], x[row[i]] - middle); },
        [&](uint32_t i, const Payload<P>& above, const Payload<P>& below) {
          const uint32_t r = row[i];
          const double sum = order.worse_weight(r) * W::over_better(order, r, above.data()) +
                             order.item_weight(r) * W::over_worse(order, r, below.data());
          out[r] = weight * ((above_[at + i] + below_[at + i]) * (x[r] - middle) - sum);
        });
  }

  template <class W, unsigned P = W::kPayloads>
  void sums(uint32_t q, const double* x, double* above_out, double* below_out,
            const Context& context) const {
    const Order& order = *order_;
    const uint32_t* row = order.row() + order.queries()[q].begin;
    const double weight = order.query_weight(q);
    run<P>(
        q, context, [&](uint32_t i) { return W::lifted(order, row[i], x[row[i]]); },
        [&](uint32_t i, const Payload<P>& above, const Payload<P>& below) {
          const uint32_t r = row[i];
          above_out[r] = weight * order.worse_weight(r) * W::over_better(order, r, above.data());
          below_out[r] = weight * order.item_weight(r) * W::over_worse(order, r, below.data());
        });
  }

  template <unsigned K, class Load, class Emit>
  void run(uint32_t q, const Context& context, Load load, Emit emit) const {
    const Query& query = order_->queries()[q];
    const int64_t at = query.begin;
    const Frozen frozen{query.size,
                        query.levels,
                        order_->level() + at,
                        order_->level_start(query),
                        position_.data() + at,
                        hi_.data() + at,
                        lo_.data() + at,
                        score_.data() + at,
                        margin_};
    Buffer<Payload<K>> payload(query.size, order_->memory()), above(query.size, order_->memory()),
        below(query.size, order_->memory());
    for (uint32_t i = 0; i < query.size; ++i) payload[i] = load(i);
    Algorithm::template run<K>(frozen, payload.data(), above.data(), below.data(), context);
    for (uint32_t i = 0; i < query.size; ++i) emit(i, above[i], below[i]);
  }

  double margin_;
  Buffer<uint32_t> hi_, lo_, position_;
  Buffer<double> score_;      // by position
  Buffer<double> score_sum_;  // Laplacian of the scores without the weight of the query
};

}  // namespace

std::unique_ptr<Plan> make_classic_plan(const Sorted& sorted, double margin, Counting counting,
                                        bool products, const Context& context) {
  switch (counting) {
    case Counting::tree:
      return std::make_unique<ClassicPlan<TreeCounting>>(sorted, margin, products, context);
    case Counting::direct:
      return std::make_unique<ClassicPlan<DirectCounting>>(sorted, margin, products, context);
    case Counting::joachims:
      return std::make_unique<ClassicPlan<JoachimsCounting>>(sorted, margin, products, context);
    default:
      return std::make_unique<ClassicPlan<AllPairsCounting>>(sorted, margin, products, context);
  }
}

}  // namespace ranksvm
