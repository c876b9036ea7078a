// Radix counting: sums of a payload over the violated partners, by one pass through the plan.
#include <algorithm>
#include <type_traits>

#include "radix_plan.hpp"

namespace ranksvm {

// The pass for a query with a tree.
template <class Rec, class Load, class Emit>
class RadixPlan::Sum {
 public:
  Sum(const RadixPlan& plan, uint32_t q, Load load, Emit emit, const Context& context)
      : plan_(plan),
        order_(*plan.order_),
        query_(order_.queries()[q]),
        load_(load),
        emit_(emit),
        context_(context) {}

  void run() {
    for (auto& buffer : records_) buffer = Buffer<Rec>(query_.size, order_.memory());
    const uint32_t* root_row = plan_.root_row_.data() + query_.begin;
    for_each_chunk(query_.size, context_, [&](std::size_t, int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) records_[0][h] = load_(root_row[h]);
    });
    const std::vector<Subtree> subtrees = split();
    (query_.size < kWorthThreads ? context_.one_thread() : context_)
        .parallel_for(subtrees.size(), [&](std::size_t i, const Context&) {
          visit(subtrees[i].node, subtrees[i].depth, subtrees[i].offset);
        });
  }

 private:
  static constexpr unsigned kPayloads = Rec::kPayloads, kWidth = kPayloads * kLanes;

  template <class T>
  const T* slots(const Buffer<T>& buffer, uint32_t depth) const {
    return buffer.data() + query_.digit_begin + static_cast<int64_t>(depth) * query_.size;
  }

  SumSweep<Rec> sweep(const Node& node, uint32_t depth, double* end) {
    static constexpr double kZero[kWidth] = {};
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

  void call(const SumSweep<SumRecord>& s, Round round) { plan_.loops_.sum_sweep(s, round); }
  void call(const SumSweep<SplitRecord>& s, Round round) { plan_.loops_.split_sweep(s, round); }
  void call(const SumSweep<NetRecord>& s, Round round) { plan_.loops_.net_sweep(s, round); }
  void call(const SumSweep<RoleRecord>& s, Round round) { plan_.loops_.role_sweep(s, round); }

  // Sweeps the large nodes, depth by depth, and lists what is below them.
  std::vector<Subtree> split() {
    struct Large {
      Subtree of;
      SumSweep<Rec> sweep;
      std::vector<double> start, ends;  // of its chunks; of one alone, `ends` only
    };
    std::vector<Subtree> subtrees, here{{query_.root, 0}};
    while (!here.empty()) {
      std::vector<Large> large;
      std::vector<Chunk> chunks;
      std::vector<uint32_t> whole;
      for (const Subtree& tree : here) {
        const Node& node = order_.nodes()[tree.node];
        const Share how = share(node, query_);
        if (how == Share::with_children) {
          subtrees.push_back(tree);
          continue;
        }
        const auto number = static_cast<uint32_t>(large.size());
        std::size_t count = 1;
        if (how == Share::whole) {
          whole.push_back(number);
        } else {
          count = add_chunks(number, node.end - node.begin, chunks);
        }
        large.push_back({tree, sweep(node, tree.depth, nullptr),
                         std::vector<double>(count * kWidth), std::vector<double>(count * kWidth)});
      }
      context_.parallel_for(chunks.size(), [&](std::size_t i, const Context&) {
        const Chunk& chunk = chunks[i];
        Large& node = large[chunk.node];
        double seen[kWidth] = {};
        for (uint32_t h = chunk.begin; h < chunk.end; ++h) {
          for (unsigned k = 0; k < kPayloads; ++k) {
            seen[k * kLanes + node.sweep.digit[h]] += node.sweep.in[h].value[k];
          }
        }
        std::copy_n(seen, kWidth, node.start.data() + chunk.number * kWidth);
      });
      for (Large& node : large) running_starts<kPayloads>(node.start);
      if (!chunks.empty()) {
        const std::size_t held = std::size_t{kPayloads} * query_.size;
        Buffer<double> upper(context_.threads() == 1 ? 0 : held, order_.memory());
        in_rounds(context_, [&](Round round) {
          context_.parallel_for(chunks.size(), [&](std::size_t i, const Context&) {
            const Chunk& chunk = chunks[i];
            Large& node = large[chunk.node];
            SumSweep<Rec> s = node.sweep;
            s.first = chunk.begin;
            s.last = chunk.end;
            s.start = node.start.data() + chunk.number * kWidth;
            s.end = node.ends.data() + chunk.number * kWidth;
            s.upper = upper.data() + kPayloads * order_.nodes()[node.of.node].begin;
            call(s, round);
          });
        });
      }
      context_.parallel_for(whole.size(), [&](std::size_t i, const Context&) {
        Large& node = large[whole[i]];
        node.sweep.end = node.ends.data();
        call(node.sweep, Round::all);
      });
      here.clear();
      for (const Large& one : large) {
        const Node& node = order_.nodes()[one.of.node];
        const double* end = one.ends.data() + one.ends.size() - kWidth;
        for (unsigned c = 0; c < node.children; ++c) {
          here.push_back({node.first_child + c, one.of.depth + 1, offset(one.of.offset, end, c)});
        }
      }
    }
    return subtrees;
  }

  using Offset = std::array<double, kMostPayloads>;

  // What the items of child c share, from what their node shares and its running sums at the end.
  static Offset offset(Offset shared, const double* end, unsigned c) {
    for (unsigned k = 0; k < kPayloads; ++k, end += kLanes) shared[k] += end[0] - end[c];
    return shared;
  }

  void visit(uint32_t index, uint32_t depth, const Offset& shared) {
    const Node& node = order_.nodes()[index];
    if (node.kind != NodeKind::inner) {
      leaf(node, records_[depth % 2].data() + node.begin, shared);
      return;
    }
    alignas(64) double end[kWidth];
    call(sweep(node, depth, end), Round::all);
    for (unsigned c = 0; c < node.children; ++c) {
      visit(node.first_child + c, depth + 1, offset(shared, end, c));
    }
  }

  void leaf(const Node& node, Rec* records, const Offset& shared) {
    const unsigned n = node.end - node.begin;
    for (unsigned i = 0; i < n; ++i) add_below(records[i], shared);
    if (node.kind == NodeKind::leaf) {
      plan_.add_leaf(plan_.mask_.data() + query_.mask_begin + node.begin, n, records);
    }
    for (unsigned i = 0; i < n; ++i) emit_(query_.begin + node.begin + i, records[i]);
  }

  static void add_below(SumRecord& r, const Offset& shared) { r.sum += shared[0]; }
  static void add_below(SplitRecord& r, const Offset& shared) { r.below += shared[0]; }
  static void add_below(NetRecord& r, const Offset& shared) {
    for (unsigned k = 0; k < kPayloads; ++k) r.net[k] -= shared[k];
  }
  static void add_below(RoleRecord& r, const Offset& shared) { r.below += shared[1]; }

  const RadixPlan& plan_;
  const Order& order_;
  const Query& query_;
  Load load_;
  Emit emit_;
  const Context& context_;
  Buffer<Rec> records_[2];
};

void RadixPlan::add_leaf(const uint64_t* mask, unsigned n, SumRecord* records) const {
  alignas(64) double value[kLeaf], sum[kLeaf];
  value[0] = 0.0;
  for (unsigned i = 0; i < n; ++i) value[i] = records[i].value[0];
  loops_.leaf_sums(value, mask, n, sum);
  for (unsigned i = 0; i < n; ++i) records[i].sum += sum[i];
}

// Payloads of a leaf, apart from its records, and their sums over partners.
template <unsigned kPayloads>
struct RadixPlan::LeafSums {
  template <class Rec>
  LeafSums(const SimdLoops& loops, const uint64_t* mask, unsigned n, const Rec* records) {
    const double* from[kPayloads];
    double *to_above[kPayloads], *to_below[kPayloads];
    for (unsigned k = 0; k < kPayloads; ++k) {
      for (unsigned i = 0; i < n; ++i) value[k][i] = records[i].value[k];
      from[k] = value[k];
      to_above[k] = above[k];
      to_below[k] = below[k];
    }
    (kPayloads == 1 ? loops.leaf_split : loops.leaf_split_two)(from, mask, n, to_above, to_below);
  }
  alignas(64) double value[kPayloads][kMaskItems], above[kPayloads][kMaskItems];
  alignas(64) double below[kPayloads][kMaskItems];
};

void RadixPlan::add_leaf(const uint64_t* mask, unsigned n, SplitRecord* records) const {
  const LeafSums<1> sums(loops_, mask, n, records);
  for (unsigned i = 0; i < n; ++i) {
    records[i].above += sums.above[0][i];
    records[i].below += sums.below[0][i];
  }
}

void RadixPlan::add_leaf(const uint64_t* mask, unsigned n, NetRecord* records) const {
  const LeafSums<2> sums(loops_, mask, n, records);
  for (unsigned i = 0; i < n; ++i) {
    for (unsigned k = 0; k < 2; ++k) records[i].net[k] += sums.above[k][i] - sums.below[k][i];
  }
}

void RadixPlan::add_leaf(const uint64_t* mask, unsigned n, RoleRecord* records) const {
  const LeafSums<2> sums(loops_, mask, n, records);
  for (unsigned i = 0; i < n; ++i) {
    records[i].above += sums.above[0][i];
    records[i].below += sums.below[1][i];
  }
}

template <class Rec, class Load, class Emit>
void RadixPlan::pass(uint32_t q, Load load, Emit emit, const Context& context) const {
  if (!is_leaf(q)) return Sum<Rec, Load, Emit>(*this, q, load, emit, context).run();
  const Query& query = order_->queries()[q];
  const uint32_t* row = order_->row() + query.begin;
  const uint64_t* mask = mask_.data() + query.mask_begin;
  if constexpr (std::is_same_v<Rec, SumRecord>) {
    alignas(64) double value[kMaskItems], sum[kMaskItems];
    value[0] = 0.0;  // the rest is written or not read
    for (uint32_t i = 0; i < query.size; ++i) value[i] = load(row[i]).value[0];
    loops_.leaf_sums(value, mask, query.size, sum);
    for (uint32_t i = 0; i < query.size; ++i) emit(query.begin + i, SumRecord{{value[i]}, sum[i]});
  } else {
    Rec records[kMaskItems];
    for (uint32_t i = 0; i < query.size; ++i) records[i] = load(row[i]);
    add_leaf(mask, query.size, records);
    for (uint32_t i = 0; i < query.size; ++i) emit(query.begin + i, records[i]);
  }
}

void RadixPlan::weigh(uint32_t q, const Context& context) {
  const Order& order = *order_;
  if (order.by_role() && order.all_better()) {  // the number of better partners is known
    return pass<SplitRecord>(
        q, [&](uint32_t row) { return SplitRecord{{order.worse_weight(row)}}; },
        [&](int64_t position, const SplitRecord& r) { below_[position] = r.below; }, context);
  }
  if (order.by_role()) {
    return pass<RoleRecord>(
        q,
        [&](uint32_t row) { return RoleRecord{{order.item_weight(row), order.worse_weight(row)}}; },
        [&](int64_t position, const RoleRecord& r) {
          above_[position] = r.above;
          below_[position] = r.below;
        },
        context);
  }
  pass<SplitRecord>(
      q, [&](uint32_t row) { return SplitRecord{{order.item_weight(row)}}; },
      [&](int64_t position, const SplitRecord& r) {
        above_[position] = r.above;
        below_[position] = r.below;
      },
      context);
}

void RadixPlan::weigh_by_gain(uint32_t q, const Context& context) {
  const Order& order = *order_;
  const uint32_t* rows = order.row();
  pass<SplitRecord>(
      q, [&](uint32_t row) { return SplitRecord{{order.gain(row) * order.item_weight(row)}}; },
      [&](int64_t position, const SplitRecord& r) {
        const double own = order.gain(rows[position]);
        above_[position] = r.above - own * above_[position];
        below_[position] = own * below_[position] - r.below;
      },
      context);
}

void RadixPlan::product(const double* x, double* out, bool centre, const Context& context) const {
  const Order& order = *order_;
  const uint32_t *rows = order.row(), *position_of = order.position();
  // One ranking is first computed by position, and then gathered.
  Buffer<double> by_position(position_of == nullptr ? 0 : order.size(), order.memory());
  auto place = [&](int64_t position) -> double& {
    return position_of == nullptr ? out[rows[position]] : by_position[position];
  };
  for_each_query(context, {out}, [&](uint32_t q, const Context& inner) {
    const double middle = centre ? order.centre(q, x) : 0.0;
    const double weight = order.query_weight(q);
    if (order.by_gain()) {
      pass<NetRecord>(
          q,
          [&](uint32_t row) {
            const double value = order.item_weight(row) * (x[row] - middle);
            return NetRecord{{value, order.gain(row) * value}};
          },
          [&](int64_t position, const NetRecord& r) {
            const uint32_t row = rows[position];
            place(position) =
                weight * ((above_[position] + below_[position]) * (x[row] - middle) -
                          order.item_weight(row) * (r.net[1] - order.gain(row) * r.net[0]));
          },
          inner);
    } else if (order.by_role()) {
      pass<RoleRecord>(
          q,
          [&](uint32_t row) {
            const double value = x[row] - middle;
            return RoleRecord{{order.item_weight(row) * value, order.worse_weight(row) * value}};
          },
          [&](int64_t position, const RoleRecord& r) {
            const uint32_t row = rows[position];
            const double sum = order.worse_weight(row) * r.above + order.item_weight(row) * r.below;
            place(position) =
                weight * ((above_[position] + below_[position]) * (x[row] - middle) - sum);
          },
          inner);
    } else if (order.weighted()) {
      pass<SumRecord>(
          q, [&](uint32_t row) { return SumRecord{{order.item_weight(row) * (x[row] - middle)}}; },
          [&](int64_t position, const SumRecord& r) {
            const uint32_t row = rows[position];
            place(position) = weight * ((above_[position] + below_[position]) * (x[row] - middle) -
                                        order.item_weight(row) * r.sum);
          },
          inner);
    } else {
      pass<SumRecord>(
          q, [&](uint32_t row) { return SumRecord{{x[row] - middle}}; },
          [&](int64_t position, const SumRecord& r) {
            place(position) = weight * ((above_[position] + below_[position]) * r.value[0] - r.sum);
          },
          inner);
    }
  });
  if (position_of == nullptr || order.pairs(0) == 0) return;
  for_each_chunk(order.size(), context, [&](std::size_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) out[row] = by_position[position_of[row]];
  });
}

void RadixPlan::sums(const double* x, double* above, double* below, const Context& context) const {
  const Order& order = *order_;
  const uint32_t* rows = order.row();
  for_each_query(context, {above, below}, [&](uint32_t q, const Context& inner) {
    const double middle = order.centre(q, x);
    const double weight = order.query_weight(q);
    const auto value = [&](uint32_t row) { return order.item_weight(row) * (x[row] - middle); };
    const auto keep = [&](int64_t position, const auto& r) {
      above[rows[position]] = r.above;
      below[rows[position]] = r.below;
    };
    if (order.by_role()) {
      const auto worse = [&](uint32_t row) { return order.worse_weight(row) * (x[row] - middle); };
      pass<RoleRecord>(
          q, [&](uint32_t row) { return RoleRecord{{value(row), worse(row)}}; }, keep, inner);
    } else {
      pass<SplitRecord>(q, [&](uint32_t row) { return SplitRecord{{value(row)}}; }, keep, inner);
    }
    if (order.by_gain()) {
      pass<SplitRecord>(
          q, [&](uint32_t row) { return SplitRecord{{order.gain(row) * value(row)}}; },
          [&](int64_t position, const SplitRecord& r) {
            const uint32_t row = rows[position];
            above[row] = r.above - order.gain(row) * above[row];
            below[row] = order.gain(row) * below[row] - r.below;
          },
          inner);
    }
    const Query& query = order.queries()[q];
    for_each_chunk(query.size, inner, [&](std::size_t, int64_t begin, int64_t end) {
      for (int64_t i = query.begin + begin; i < query.begin + end; ++i) {
        const uint32_t row = rows[i];
        above[row] = weight * (order.worse_weight(row) * above[row] + middle * above_[i]);
        below[row] = weight * (order.item_weight(row) * below[row] + middle * below_[i]);
      }
    });
  });
}

}  // namespace ranksvm
