// Radix counting: everything of a plan that depends on the scores alone, and the pair counts.
#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "radix_plan.hpp"

namespace ranksvm {

// Builds the plan of one larger query, and its pair counts.
class RadixPlan::Count {
 public:
  Count(RadixPlan& plan, const Sorted& sorted, uint32_t q, double margin, const Context& context)
      : plan_(plan),
        order_(*plan.order_),
        query_(order_.queries()[q]),
        margin_(margin),
        context_(context),
        score_(sorted.score() + query_.begin),
        root_position_(sorted.position() + query_.begin),
        mask_(plan.mask_.data() + query_.mask_begin) {
    const std::size_t n = query_.size;
    const std::shared_ptr<Memory>& memory = order_.memory();
    even_ = Buffer<uint32_t>(query_.depth > 2 ? n : 0, memory);
    odd_ = Buffer<uint32_t>(query_.depth > 1 ? n : 0, memory);
    child_lo_ = Buffer<uint32_t>(n, memory);
    count_ = Buffer<PairCount>(n, memory);
    even_count_ = Buffer<PairCount>(n, memory);
    odd_count_ = Buffer<PairCount>(query_.depth > 1 ? n : 0, memory);
    margin_ranks(sorted.ascending() + query_.begin, query_.size, margin, slots(plan.hi_, 0),
                 slots(plan.lo_, 0), context);
  }

  void run() {
    const uint32_t* row = order_.row() + query_.begin;
    uint32_t* root_row = plan_.root_row_.data() + query_.begin;
    for_each_chunk(query_.size, context_, [&](std::size_t, int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) {
        even_count_[h] = {0, 0};
        root_row[h] = row[root_position_[h]];
      }
    });
    const std::vector<Subtree> subtrees = split();
    (query_.size < kWorthThreads ? context_.one_thread() : context_)
        .parallel_for(subtrees.size(), [&](std::size_t i, const Context&) {
          visit(subtrees[i].node, subtrees[i].depth);
        });
    double* above = plan_.above_.data() + query_.begin;
    double* below = plan_.below_.data() + query_.begin;
    for_each_chunk(query_.size, context_, [&](std::size_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        above[i] = count_[i].above;
        below[i] = count_[i].below;
      }
    });
  }

 private:
  template <class T>
  T* slots(Buffer<T>& buffer, uint32_t depth) const {
    return buffer.data() + query_.digit_begin + static_cast<int64_t>(depth) * query_.size;
  }

  // Items of the nodes of a depth, in score order; the root's stand in the sorted scores.
  uint32_t* items(uint32_t depth) { return depth % 2 == 0 ? even_.data() : odd_.data(); }
  PairCount* counts(uint32_t depth) {
    return depth % 2 == 0 ? even_count_.data() : odd_count_.data();
  }

  // Looks up the children of items [first, last) of a node.
  void find_digits(const Node& node, uint32_t depth, uint32_t first, uint32_t last) {
    const uint8_t* digit_at = order_.digits(query_, depth);
    const uint32_t* position = (depth == 0 ? root_position_ : items(depth)) + node.begin;
    uint8_t* digit = slots(plan_.digit_, depth) + node.begin;
    for (uint32_t h = first; h < last; ++h) digit[h] = digit_at[position[h]];
  }

  CountSweep sweep(const Node& node, uint32_t depth, uint32_t* child_begin, uint8_t* child_inner) {
    for (unsigned c = 0; c < kLanes; ++c) {
      const bool there = c < node.children;
      const Node& child = order_.nodes()[node.first_child + (there ? c : 0)];
      child_begin[c] = there ? child.begin : node.end;
      child_inner[c] = there && child.kind == NodeKind::inner;
    }
    static constexpr uint32_t kZero[kLanes] = {};
    const bool more = depth + 1 < query_.depth;
    CountSweep s{};
    s.n = s.last = node.end - node.begin;
    s.node = node.begin;
    s.start = kZero;
    s.child_begin = child_begin;
    s.child_inner = child_inner;
    s.position = (depth == 0 ? root_position_ : items(depth)) + node.begin;
    s.hi = slots(plan_.hi_, depth) + node.begin;
    s.lo = slots(plan_.lo_, depth) + node.begin;
    s.digit = slots(plan_.digit_, depth) + node.begin;
    s.target = slots(plan_.target_, depth) + node.begin;
    s.child_lo = child_lo_.data() + node.begin;
    s.position_to = more ? items(depth + 1) : nullptr;
    s.hi_to = more ? slots(plan_.hi_, depth + 1) : nullptr;
    s.lo_to = more ? slots(plan_.lo_, depth + 1) : nullptr;
    s.count = counts(depth) + node.begin;
    s.count_to = more ? counts(depth + 1) : nullptr;
    s.count_final = count_.data();
    return s;
  }

  // Sweeps the large nodes, depth by depth, and lists what is below them.
  std::vector<Subtree> split() {
    struct Large {
      const Node& node;
      uint32_t child_begin[kLanes];
      uint8_t child_inner[kLanes];
      CountSweep sweep;
      std::vector<uint32_t> start;  // of its chunks
    };
    std::vector<Subtree> subtrees;
    std::vector<uint32_t> here{query_.root};
    for (uint32_t depth = 0; !here.empty(); ++depth) {
      std::deque<Large> large;  // sweeps point into them
      std::vector<Chunk> chunks;
      std::vector<uint32_t> whole;
      for (const uint32_t index : here) {
        const Node& node = order_.nodes()[index];
        const Share how = share(node, query_);
        if (how == Share::with_children) {
          subtrees.push_back({index, depth});
          continue;
        }
        const auto number = static_cast<uint32_t>(large.size());
        Large& one = large.emplace_back(Large{node, {}, {}, {}, {}});
        one.sweep = sweep(node, depth, one.child_begin, one.child_inner);
        if (how == Share::whole) {
          whole.push_back(number);
        } else {
          one.start.resize(add_chunks(number, node.end - node.begin, chunks) * kLanes);
        }
      }
      context_.parallel_for(chunks.size(), [&](std::size_t i, const Context&) {
        const Chunk& chunk = chunks[i];
        Large& one = large[chunk.node];
        uint32_t seen[kLanes] = {};
        find_digits(one.node, depth, chunk.begin, chunk.end);
        for (uint32_t h = chunk.begin; h < chunk.end; ++h) ++seen[one.sweep.digit[h]];
        std::copy_n(seen, kLanes, one.start.data() + chunk.number * kLanes);
      });
      for (Large& one : large) running_starts<1>(one.start);
      if (!chunks.empty()) {
        Buffer<UpperCount> upper(context_.threads() == 1 ? 0 : query_.size, order_.memory());
        in_rounds(context_, [&](Round round) {
          context_.parallel_for(chunks.size(), [&](std::size_t i, const Context&) {
            const Chunk& chunk = chunks[i];
            const Large& one = large[chunk.node];
            CountSweep s = one.sweep;
            s.first = chunk.begin;
            s.last = chunk.end;
            s.start = one.start.data() + chunk.number * kLanes;
            s.upper = upper.data() + one.node.begin;
            plan_.loops_.count_sweep(s, round);
          });
        });
      }
      context_.parallel_for(whole.size(), [&](std::size_t i, const Context&) {
        const Large& one = large[whole[i]];
        find_digits(one.node, depth, 0, one.node.end - one.node.begin);
        plan_.loops_.count_sweep(one.sweep, Round::all);
      });
      here.clear();
      for (const Large& one : large) {
        for (unsigned c = 0; c < one.node.children; ++c) here.push_back(one.node.first_child + c);
      }
    }
    return subtrees;
  }

  void visit(uint32_t index, uint32_t depth) {
    const Node& node = order_.nodes()[index];
    if (node.kind == NodeKind::flat) return;
    if (node.kind == NodeKind::leaf) return leaf(node);
    uint32_t child_begin[kLanes];
    uint8_t child_inner[kLanes];
    find_digits(node, depth, 0, node.end - node.begin);
    plan_.loops_.count_sweep(sweep(node, depth, child_begin, child_inner), Round::all);
    for (unsigned c = 0; c < node.children; ++c) visit(node.first_child + c, depth + 1);
  }

  void leaf(const Node& node) {
    const unsigned n = node.end - node.begin;
    plan_.loops_.leaf_masks(score_ + node.begin, order_.level() + query_.begin + node.begin, n,
                            margin_, mask_ + node.begin, count_.data() + node.begin);
  }

  RadixPlan& plan_;
  const Order& order_;
  const Query& query_;
  double margin_;
  const Context& context_;
  const double* score_;
  const uint32_t* root_position_;  // score order of the query -> position
  uint64_t* mask_;
  Buffer<uint32_t> even_, odd_, child_lo_;
  Buffer<PairCount> count_, even_count_, odd_count_;
};

RadixPlan::RadixPlan(const Sorted& sorted, double margin, const Context& context)
    : OrderPlan(sorted.shared_order()), loops_(simd_loops()) {
  const Order& order = *order_;
  const Query& last = order.queries().back();
  const std::size_t slots = last.digit_begin + static_cast<std::size_t>(last.depth) * last.size;
  const std::shared_ptr<Memory>& memory = order.memory();
  digit_ = Buffer<uint8_t>(slots, memory);
  hi_ = Buffer<uint32_t>(slots, memory);
  lo_ = Buffer<uint32_t>(slots, memory);
  target_ = Buffer<uint32_t>(slots, memory);
  mask_ = Buffer<uint64_t>(order.mask_words_total(), memory);
  if (slots > 0) root_row_ = Buffer<uint32_t>(order.size(), memory);
  for_each_query(context, [&](uint32_t q, const Context& inner) {
    if (is_leaf(q)) {
      count_leaf(q, sorted, margin);
    } else {
      Count(*this, sorted, q, margin, inner).run();
    }
  });
  if (order.weighted() || order.by_gain()) {
    for_each_query(context, [&](uint32_t q, const Context& inner) {
      if (order.weighted()) weigh(q, inner);
      if (order.by_gain()) weigh_by_gain(q, inner);
    });
  }
  finish_counts(context);
}

void RadixPlan::count_leaf(uint32_t q, const Sorted& sorted, double margin) {
  const Query& query = order_->queries()[q];
  PairCount count[kMaskItems];
  std::fill_n(count, query.size, PairCount{0, 0});
  loops_.leaf_masks(sorted.score() + query.begin, order_->level() + query.begin, query.size, margin,
                    mask_.data() + query.mask_begin, count);
  for (uint32_t i = 0; i < query.size; ++i) {
    above_[query.begin + i] = count[i].above;
    below_[query.begin + i] = count[i].below;
  }
}

std::unique_ptr<Plan> make_radix_plan(const Sorted& sorted, double margin, const Context& context) {
  return std::make_unique<RadixPlan>(sorted, margin, context);
}

}  // namespace ranksvm
