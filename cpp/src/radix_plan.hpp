// counting="auto": bit masks for queries of at most kMaskItems items, radix counting for larger
// ones (the idea is told in radix.hpp). Everything that depends on the scores but not on the
// payload (child numbers, ranks, targets, masks) is computed once, in radix_count.cpp, and kept, so
// a product (radix_sum.cpp) only streams through it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ranksvm/plan.hpp"
#include "ranksvm/simd.hpp"

namespace ranksvm {

class RadixPlan final : public OrderPlan {
 public:
  RadixPlan(const Sorted& sorted, double margin, const Context& context);

  void laplacian(const double* x, double* out, const Context& context) const override {
    product(x, out, true, context);
  }
  void score_laplacian(const double* centred, double* out, const Context& context) const override {
    product(centred, out, false, context);
  }
  void sums(const double* x, double* above, double* below, const Context& context) const override;

 private:
  // A subtree small enough for one thread, with the part of the sums that all its items share.
  struct Subtree {
    uint32_t node, depth;
    std::array<double, kMostPayloads> offset{};  // of each payload
  };
  // Part of a node that several threads sweep together; `node` counts those of one depth.
  struct Chunk {
    uint32_t node, number, begin, end;
  };
  class Count;
  template <unsigned kPayloads>
  struct LeafSums;
  template <class Rec, class Load, class Emit>
  class Sum;

  bool is_leaf(uint32_t q) const {
    return order_->nodes()[order_->queries()[q].root].kind == NodeKind::leaf;
  }
  // The plan of a query that is one leaf.
  void count_leaf(uint32_t q, const Sorted& sorted, double margin);
  // Sums of the partners' weights, by position.
  void weigh(uint32_t q, const Context& context);
  // These sums, times the differences of gains.
  void weigh_by_gain(uint32_t q, const Context& context);
  // The Laplacian times x, taken about the centre of each query.
  void product(const double* x, double* out, bool centre, const Context& context) const;

  // One pass of a payload through the plan of one query: load(row) is the record of an item with
  // its payload; emit(position, record) takes the finished sums over its partners.
  template <class Rec, class Load, class Emit>
  void pass(uint32_t q, Load load, Emit emit, const Context& context) const;
  // Adds to the records of a leaf the sums over its violated pairs.
  void add_leaf(const uint64_t* mask, unsigned n, SumRecord* records) const;
  void add_leaf(const uint64_t* mask, unsigned n, SplitRecord* records) const;
  void add_leaf(const uint64_t* mask, unsigned n, NetRecord* records) const;
  void add_leaf(const uint64_t* mask, unsigned n, RoleRecord* records) const;

  // How a query is shared among threads: a node that has most of its items is swept in chunks;
  // another large one by one thread, beside others of its depth; what is below small ones is
  // visited by one thread. This goes by sizes alone, since the chunks determine the order of sums.
  enum class Share { in_chunks, whole, with_children };
  static Share share(const Node& node, const Query& query) {
    const uint32_t n = node.end - node.begin;
    if (node.kind != NodeKind::inner || n <= 2 * kChunk) return Share::with_children;
    return n > query.size / 8 ? Share::in_chunks : Share::whole;
  }
  // Adds the chunks of a node of n items; returns their number.
  static std::size_t add_chunks(uint32_t node, uint32_t n, std::vector<Chunk>& chunks) {
    const uint32_t count = (n + kChunk - 1) / kChunk;
    for (uint32_t c = 0; c < count; ++c) {
      chunks.push_back({node, c, c * kChunk, std::min(n, (c + 1) * kChunk)});
    }
    return count;
  }

  // Per chunk, payload and digit -> per chunk and payload: running total, over the chunks before,
  // of digits >= c.
  template <unsigned kPayloads, class T>
  static void running_starts(std::vector<T>& start) {
    T total[kPayloads][kLanes] = {};
    for (std::size_t r = 0; r < start.size() / kLanes; ++r) {
      T *row = start.data() + r * kLanes, *sum = total[r % kPayloads];
      T suffix{};
      for (unsigned lane = kLanes; lane-- > 0;) {
        suffix += row[lane];
        row[lane] = sum[lane];
        sum[lane] += suffix;
      }
    }
  }

  // One thread goes through the chunks in order, and does everything at once.
  template <class Sweep>
  static void in_rounds(const Context& context, Sweep&& sweep) {
    if (context.threads() == 1) return sweep(Round::all);
    sweep(Round::look_up);
    sweep(Round::move);
  }

  const SimdLoops& loops_;
  Buffer<uint8_t> digit_;              // the slots of Order::digits, but in score order
  Buffer<uint32_t> hi_, lo_, target_;  // likewise
  Buffer<uint64_t> mask_;              // by position
  Buffer<uint32_t> root_row_;          // score order of a query -> row
};

}  // namespace ranksvm
