// counting="auto": bit masks for queries of at most kMaskItems items, radix descent for larger ones
// (the idea is told in simd.hpp). Everything that depends on the scores but not on the payload
// (child numbers, ranks, targets, masks) is computed once and kept, so a product only streams
// through it.
#include <algorithm>

#include "ranksvm/plan.hpp"

namespace ranksvm {
namespace {

// A subtree small enough for one thread, with the part of the sums that all its items share.
struct Task {
  uint32_t node, depth;
  double offset;
};

class DescentPlan final : public OrderPlan {
 public:
  DescentPlan(const Sorted& sorted, double margin, const Context& context)
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
    if (slots > 0) start_row_ = Buffer<uint32_t>(order.size(), memory);
    for_each_query(context, [&](uint32_t q, const Context& inner) {
      if (is_leaf(q)) {
        count_leaf(q, sorted, margin);
      } else {
        Count(*this, sorted, q, margin, inner).run();
      }
    });
    if (order.weighted()) {
      for_each_query(context, [&](uint32_t q, const Context& inner) { weigh(q, inner); });
    }
    finish_counts(context);
  }

  void laplacian(const double* x, double* out, const Context& context) const override {
    product(x, out, true, context);
  }
  void score_laplacian(const double* centred, double* out, const Context& context) const override {
    product(centred, out, false, context);
  }
  void sums(const double* x, double* above, double* below, const Context& context) const override;

 private:
  bool is_leaf(uint32_t q) const {
    return order_->nodes()[order_->queries()[q].root].kind == NodeKind::leaf;
  }

  // The plan of a query that is one leaf.
  void count_leaf(uint32_t q, const Sorted& sorted, double margin) {
    const Query& query = order_->queries()[q];
    PairCount count[kMaskItems];
    std::fill_n(count, query.size, PairCount{0, 0});
    loops_.leaf_masks(sorted.score() + query.begin, order_->level() + query.begin, query.size,
                      margin, mask_.data() + query.mask_begin, count);
    for (uint32_t i = 0; i < query.size; ++i) {
      above_[query.begin + i] = count[i].above;
      below_[query.begin + i] = count[i].below;
    }
  }

  // Builds the plan of one larger query, and its pair counts.
  class Count {
   public:
    Count(DescentPlan& plan, const Sorted& sorted, uint32_t q, double margin,
          const Context& context)
        : plan_(plan),
          order_(*plan.order_),
          query_(order_.queries()[q]),
          margin_(margin),
          context_(context),
          score_(sorted.score() + query_.begin),
          start_(sorted.position() + query_.begin),
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
      uint32_t* start_row = plan_.start_row_.data() + query_.begin;
      pieces(query_.size, [&](uint32_t begin, uint32_t end) {
        for (uint32_t h = begin; h < end; ++h) {
          even_count_[h] = {0, 0};
          start_row[h] = row[start_[h]];
        }
      });
      std::vector<Task> tasks;
      split(query_.root, 0, tasks);
      context_.parallel_for(tasks.size(), [&](std::size_t t, const Context&) {
        descend(tasks[t].node, tasks[t].depth);
      });
      double* above = plan_.above_.data() + query_.begin;
      double* below = plan_.below_.data() + query_.begin;
      pieces(query_.size, [&](uint32_t begin, uint32_t end) {
        for (uint32_t i = begin; i < end; ++i) {
          above[i] = count_[i].above;
          below[i] = count_[i].below;
        }
      });
    }

   private:
    template <class Body>
    void pieces(uint32_t n, Body&& body) {
      if (n <= 2 * kChunk) return body(0, n);
      context_.parallel_for((n + kChunk - 1) / kChunk, [&](std::size_t c, const Context&) {
        const uint32_t begin = static_cast<uint32_t>(c * kChunk);
        body(begin, std::min(n, begin + kChunk));
      });
    }

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
      const uint32_t* position = (depth == 0 ? start_ : items(depth)) + node.begin;
      uint8_t* digit = slots(plan_.digit_, depth) + node.begin;
      for (uint32_t h = first; h < last; ++h) digit[h] = digit_at[position[h]];
    }

    CountSweep sweep(const Node& node, uint32_t depth, uint32_t* child_begin,
                     uint8_t* child_inner) {
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
      s.position = (depth == 0 ? start_ : items(depth)) + node.begin;
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

    // Sweeps the nodes that are too large for one thread, and lists what is below them.
    void split(uint32_t index, uint32_t depth, std::vector<Task>& tasks) {
      const Node& node = order_.nodes()[index];
      const uint32_t n = node.end - node.begin;
      if (node.kind != NodeKind::inner || n <= 2 * kChunk) {
        tasks.push_back({index, depth, 0.0});
        return;
      }
      uint32_t child_begin[kLanes];
      uint8_t child_inner[kLanes];
      const CountSweep whole = sweep(node, depth, child_begin, child_inner);
      const std::size_t chunks = (n + kChunk - 1) / kChunk;
      std::vector<uint32_t> start(chunks * kLanes);
      context_.parallel_for(chunks, [&](std::size_t c, const Context&) {
        uint32_t seen[kLanes] = {};
        const uint32_t end = std::min<uint32_t>(n, (c + 1) * kChunk);
        find_digits(node, depth, c * kChunk, end);
        for (uint32_t h = c * kChunk; h < end; ++h) ++seen[whole.digit[h]];
        std::copy_n(seen, kLanes, start.data() + c * kLanes);
      });
      running_starts(start);
      auto round = [&](Ranks ranks) {
        context_.parallel_for(chunks, [&](std::size_t c, const Context&) {
          CountSweep s = whole;
          s.first = c * kChunk;
          s.last = std::min<uint32_t>(n, (c + 1) * kChunk);
          s.start = start.data() + c * kLanes;
          plan_.loops_.count_sweep(s, ranks);
        });
      };
      in_rounds(context_, round);
      for (unsigned c = 0; c < node.children; ++c) split(node.first_child + c, depth + 1, tasks);
    }

    void descend(uint32_t index, uint32_t depth) {
      const Node& node = order_.nodes()[index];
      if (node.kind == NodeKind::flat) return;
      if (node.kind == NodeKind::leaf) return leaf(node);
      uint32_t child_begin[kLanes];
      uint8_t child_inner[kLanes];
      find_digits(node, depth, 0, node.end - node.begin);
      plan_.loops_.count_sweep(sweep(node, depth, child_begin, child_inner), Ranks::both);
      for (unsigned c = 0; c < node.children; ++c) descend(node.first_child + c, depth + 1);
    }

    void leaf(const Node& node) {
      const unsigned n = node.end - node.begin;
      plan_.loops_.leaf_masks(score_ + node.begin, order_.level() + query_.begin + node.begin, n,
                              margin_, mask_ + node.begin, count_.data() + node.begin);
    }

    DescentPlan& plan_;
    const Order& order_;
    const Query& query_;
    double margin_;
    const Context& context_;
    const double* score_;
    const uint32_t* start_;
    uint64_t* mask_;
    Buffer<uint32_t> even_, odd_, child_lo_;
    Buffer<PairCount> count_, even_count_, odd_count_;
  };

  // One pass of a payload through the plan of one query. `load(row)` is the payload of an item;
  // `emit(position, record)` takes the finished sums over its partners.
  template <class Rec, class Load, class Emit>
  class Sum {
   public:
    Sum(const DescentPlan& plan, uint32_t q, Load load, Emit emit, const Context& context)
        : plan_(plan),
          order_(*plan.order_),
          query_(order_.queries()[q]),
          load_(load),
          emit_(emit),
          context_(context) {}

    void run() {
      for (auto& buffer : records_) buffer = Buffer<Rec>(query_.size, order_.memory());
      const uint32_t* start_row = plan_.start_row_.data() + query_.begin;
      std::vector<Task> tasks;
      if (query_.size <= 2 * kChunk) {
        for (uint32_t h = 0; h < query_.size; ++h) records_[0][h] = Rec{load_(start_row[h])};
        tasks.push_back({query_.root, 0, 0.0});
      } else {
        context_.parallel_for(
            (query_.size + kChunk - 1) / kChunk, [&](std::size_t c, const Context&) {
              const uint32_t end = std::min<uint32_t>(query_.size, (c + 1) * kChunk);
              for (uint32_t h = c * kChunk; h < end; ++h) records_[0][h] = Rec{load_(start_row[h])};
            });
        split(query_.root, 0, 0.0, tasks);
      }
      context_.parallel_for(tasks.size(), [&](std::size_t t, const Context&) {
        descend(tasks[t].node, tasks[t].depth, tasks[t].offset);
      });
    }

   private:
    template <class T>
    const T* slots(const Buffer<T>& buffer, uint32_t depth) const {
      return buffer.data() + query_.digit_begin + static_cast<int64_t>(depth) * query_.size;
    }

    SumSweep<Rec> sweep(const Node& node, uint32_t depth, double* end) {
      static constexpr double kZero[kLanes] = {};
      SumSweep<Rec> s{};
      s.n = s.last = node.end - node.begin;
      s.start = kZero;
      s.digit = slots(plan_.digit_, depth) + node.begin;
      s.hi = slots(plan_.hi_, depth) + node.begin;
      s.lo = slots(plan_.lo_, depth) + node.begin;
      s.target = slots(plan_.target_, depth) + node.begin;
      s.in = records_[depth % 2].data() + node.begin;
      s.out = records_[(depth + 1) % 2].data();
      s.end = end;
      return s;
    }

    void call(const SumSweep<Record>& s, Ranks ranks) { plan_.loops_.sum_sweep(s, ranks); }
    void call(const SumSweep<SplitRecord>& s, Ranks ranks) { plan_.loops_.split_sweep(s, ranks); }

    void split(uint32_t index, uint32_t depth, double offset, std::vector<Task>& tasks) {
      const Node& node = order_.nodes()[index];
      const uint32_t n = node.end - node.begin;
      if (node.kind != NodeKind::inner || n <= 2 * kChunk) {
        tasks.push_back({index, depth, offset});
        return;
      }
      const SumSweep<Rec> whole = sweep(node, depth, nullptr);
      const std::size_t chunks = (n + kChunk - 1) / kChunk;
      std::vector<double> start(chunks * kLanes), ends(chunks * kLanes);
      context_.parallel_for(chunks, [&](std::size_t c, const Context&) {
        double seen[kLanes] = {};
        const uint32_t end = std::min<uint32_t>(n, (c + 1) * kChunk);
        for (uint32_t h = c * kChunk; h < end; ++h) seen[whole.digit[h]] += whole.in[h].value;
        std::copy_n(seen, kLanes, start.data() + c * kLanes);
      });
      running_starts(start);
      auto round = [&](Ranks ranks) {
        context_.parallel_for(chunks, [&](std::size_t c, const Context&) {
          SumSweep<Rec> s = whole;
          s.first = c * kChunk;
          s.last = std::min<uint32_t>(n, (c + 1) * kChunk);
          s.start = start.data() + c * kLanes;
          s.end = ends.data() + c * kLanes;
          call(s, ranks);
        });
      };
      in_rounds(context_, round);
      const double* end = ends.data() + (chunks - 1) * kLanes;
      for (unsigned c = 0; c < node.children; ++c) {
        split(node.first_child + c, depth + 1, offset + (end[0] - end[c]), tasks);
      }
    }

    void descend(uint32_t index, uint32_t depth, double offset) {
      const Node& node = order_.nodes()[index];
      if (node.kind != NodeKind::inner) {
        leaf(node, records_[depth % 2].data() + node.begin, offset);
        return;
      }
      alignas(64) double end[kLanes];
      call(sweep(node, depth, end), Ranks::both);
      for (unsigned c = 0; c < node.children; ++c) {
        descend(node.first_child + c, depth + 1, offset + (end[0] - end[c]));
      }
    }

    void leaf(const Node& node, Rec* records, double offset) {
      const unsigned n = node.end - node.begin;
      for (unsigned i = 0; i < n; ++i) below(records[i]) += offset;
      if (node.kind == NodeKind::leaf) {
        plan_.add_leaf(plan_.mask_.data() + query_.mask_begin + node.begin, n, records);
      }
      for (unsigned i = 0; i < n; ++i) emit_(query_.begin + node.begin + i, records[i]);
    }

    static double& below(Record& r) { return r.sum; }
    static double& below(SplitRecord& r) { return r.below; }

    const DescentPlan& plan_;
    const Order& order_;
    const Query& query_;
    Load load_;
    Emit emit_;
    const Context& context_;
    Buffer<Rec> records_[2];
  };

  template <class Rec, class Load, class Emit>
  void pass(uint32_t q, Load load, Emit emit, const Context& context) const {
    if (!is_leaf(q)) return Sum<Rec, Load, Emit>(*this, q, load, emit, context).run();
    const Query& query = order_->queries()[q];
    const uint32_t* row = order_->row() + query.begin;
    const uint64_t* mask = mask_.data() + query.mask_begin;
    if constexpr (std::is_same_v<Rec, Record>) {
      alignas(64) double value[kMaskItems], sum[kMaskItems];
      value[0] = 0.0;  // the rest is written or not read
      for (uint32_t i = 0; i < query.size; ++i) value[i] = load(row[i]);
      loops_.leaf_sums(value, mask, query.size, sum);
      for (uint32_t i = 0; i < query.size; ++i) emit(query.begin + i, Record{value[i], sum[i]});
    } else {
      Rec records[kMaskItems];
      for (uint32_t i = 0; i < query.size; ++i) records[i] = Rec{load(row[i])};
      add_leaf(mask, query.size, records);
      for (uint32_t i = 0; i < query.size; ++i) emit(query.begin + i, records[i]);
    }
  }

  // Adds to the records of a leaf the sums over its violated pairs.
  void add_leaf(const uint64_t* mask, unsigned n, Record* records) const {
    alignas(64) double value[kLeaf], sum[kLeaf];
    value[0] = 0.0;
    for (unsigned i = 0; i < n; ++i) value[i] = records[i].value;
    loops_.leaf_sums(value, mask, n, sum);
    for (unsigned i = 0; i < n; ++i) records[i].sum += sum[i];
  }
  void add_leaf(const uint64_t* mask, unsigned n, SplitRecord* records) const {
    alignas(64) double value[kMaskItems] = {}, sum[kMaskItems];
    for (unsigned i = 0; i < n; ++i) value[i] = records[i].value;
    // Of each item its better partners, to whom it is the worse one; then the others.
    const unsigned words = mask_words(n);
    uint64_t half[kMaskItems * mask_words(kMaskItems)] = {};
    for (unsigned i = 0; i < n; ++i) {
      for (unsigned w = 0; w < words; ++w) {
        const unsigned later = i < 64 * w ? 0 : i - 64 * w + 1;  // first bit beyond i
        half[i * words + w] = later > 63 ? 0 : mask[i * words + w] & (~uint64_t{0} << later);
      }
    }
    loops_.leaf_sums(value, half, n, sum);
    for (unsigned i = 0; i < n; ++i) records[i].below += sum[i];
    for (unsigned k = 0; k < n * words; ++k) half[k] ^= mask[k];
    loops_.leaf_sums(value, half, n, sum);
    for (unsigned i = 0; i < n; ++i) records[i].above += sum[i];
  }

  // Per chunk and digit -> per chunk: running total, over the chunks before, of digits >= c.
  template <class T>
  static void running_starts(std::vector<T>& start) {
    T total[kLanes] = {};
    for (std::size_t c = 0; c < start.size() / kLanes; ++c) {
      T* row = start.data() + c * kLanes;
      T suffix{};
      for (unsigned lane = kLanes; lane-- > 0;) {
        suffix += row[lane];
        row[lane] = total[lane];
        total[lane] += suffix;
      }
    }
  }

  // Upper look-ups of an item come after its lower one. One thread goes through the chunks in
  // order, which is enough; several need a round each.
  template <class Round>
  static void in_rounds(const Context& context, Round& round) {
    if (context.threads() == 1) return round(Ranks::both);
    round(Ranks::lower);
    round(Ranks::upper);
  }

  // The Laplacian times x, taken about the centre of each query.
  void product(const double* x, double* out, bool centre, const Context& context) const;

  // Sums of the partners' weights, by position.
  void weigh(uint32_t q, const Context& context) {
    const Order& order = *order_;
    pass<SplitRecord>(
        q, [&](uint32_t row) { return order.item_weight(row); },
        [&](int64_t position, const SplitRecord& r) {
          above_[position] = r.above;
          below_[position] = r.below;
        },
        context);
  }

  const SimdLoops& loops_;
  Buffer<uint8_t> digit_;              // the slots of Order::digits, but in score order
  Buffer<uint32_t> hi_, lo_, target_;  // likewise
  Buffer<uint64_t> mask_;              // by position
  Buffer<uint32_t> start_row_;         // score order of a query -> row
};

void DescentPlan::product(const double* x, double* out, bool centre, const Context& context) const {
  const Order& order = *order_;
  const uint32_t* rows = order.row();
  clear_idle(out);
  for_each_query(context, [&](uint32_t q, const Context& inner) {
    const double middle = centre ? order.centre(q, x) : 0.0;
    const double weight = order.query_weight(q);
    if (order.weighted()) {
      pass<Record>(
          q, [&](uint32_t row) { return order.item_weight(row) * (x[row] - middle); },
          [&](int64_t position, const Record& r) {
            const uint32_t row = rows[position];
            out[row] = weight * ((above_[position] + below_[position]) * (x[row] - middle) -
                                 order.item_weight(row) * r.sum);
          },
          inner);
    } else {
      pass<Record>(
          q, [&](uint32_t row) { return x[row] - middle; },
          [&](int64_t position, const Record& r) {
            out[rows[position]] =
                weight * ((above_[position] + below_[position]) * r.value - r.sum);
          },
          inner);
    }
  });
}

void DescentPlan::sums(const double* x, double* above, double* below,
                       const Context& context) const {
  const Order& order = *order_;
  const uint32_t* rows = order.row();
  clear_idle(above);
  clear_idle(below);
  for_each_query(context, [&](uint32_t q, const Context& inner) {
    const double middle = order.centre(q, x);
    const double weight = order.query_weight(q);
    pass<SplitRecord>(
        q, [&](uint32_t row) { return order.item_weight(row) * (x[row] - middle); },
        [&](int64_t position, const SplitRecord& r) {
          const uint32_t row = rows[position];
          const double own = order.item_weight(row);
          above[row] = weight * (own * r.above + middle * above_[position]);
          below[row] = weight * (own * r.below + middle * below_[position]);
        },
        inner);
  });
}

}  // namespace

std::unique_ptr<Plan> make_descent_plan(const Sorted& sorted, double margin,
                                        const Context& context) {
  return std::make_unique<DescentPlan>(sorted, margin, context);
}

}  // namespace ranksvm
