// What never changes during training: the items of every query in relevance order.
//
// A *position* counts items query by query, each query from its worst to its best item; inside a
// query positions are relative to its first one. Items of equal utility share a *level*. For
// queries of more than kLeaf items the relevance order is also cut into the static tree that the
// radix descent walks (see kernels.hpp): every child is a run of whole levels.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ranksvm/buffer.hpp"
#include "ranksvm/kernels.hpp"
#include "ranksvm/parallel.hpp"

namespace ranksvm {

enum class NodeKind : uint8_t {
  inner,  // has children
  leaf,   // few items, of two levels or more: pairs by bit mask
  flat,   // one level: no comparable pair inside
};

struct Node {
  uint32_t begin, end;   // positions inside the query
  uint32_t first_child;  // index into Order::nodes
  uint8_t children;
  NodeKind kind;
};

struct Query {
  int64_t begin;        // first position
  uint32_t size;        // items
  uint32_t levels;      // distinct utilities
  int64_t level_begin;  // into Order::level_start (levels + 1 entries)
  uint32_t root;        // node
  uint32_t depth;       // longest chain of inner nodes
  int64_t digit_begin;  // into Order::digits: depth rows of `size`
  int64_t mask_begin;   // into the masks of a plan: mask_words(size) an item for a leaf, else one
};

// Below this many items the work is done before other threads have woken up.
constexpr int64_t kWorthThreads = int64_t{1} << 16;
// Items of one large query that a thread sweeps at a time.
constexpr uint32_t kChunk = 1U << 15;

// Comparable pairs of a query from the first positions of its levels, start[0] .. start[levels]:
// each item with all items of the levels before its own. Fewer than 2^63 for 32-bit positions.
inline int64_t count_pairs(const uint32_t* start, uint32_t levels) {
  int64_t pairs = 0;
  for (uint32_t l = 0; l < levels; ++l) {
    pairs += static_cast<int64_t>(start[l]) * (start[l + 1] - start[l]);
  }
  return pairs;
}

class Order {
 public:
  // `rows` lists the row numbers query by query, offsets[q] .. offsets[q + 1]; `utility` is by row.
  // Weights may be null (all ones); item_weight is by row.
  Order(const double* utility, const int64_t* rows, const int64_t* offsets, int64_t n_queries,
        const double* item_weight, const double* query_weight, const Context& context);

  int64_t size() const { return size_; }
  int64_t mask_words_total() const { return mask_words_; }
  bool weighted() const { return !item_weight_.empty(); }
  const std::vector<Query>& queries() const { return queries_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const uint32_t* row() const { return row_.data(); }      // position -> row
  const uint32_t* level() const { return level_.data(); }  // position -> level inside the query
  const uint32_t* level_start(const Query& q) const { return level_start_.data() + q.level_begin; }
  const uint8_t* digits(const Query& q, uint32_t depth) const {
    return digits_.data() + q.digit_begin + static_cast<int64_t>(depth) * q.size;
  }
  // Weights, by row and by query; 1 where none were given.
  double item_weight(uint32_t row) const { return item_weight_.empty() ? 1.0 : item_weight_[row]; }
  double query_weight(std::size_t query) const {
    return query_weight_.empty() ? 1.0 : query_weight_[query];
  }
  // Replaces the weights of the queries; not while a plan is in use.
  void set_query_weight(std::vector<double> weight) { query_weight_ = std::move(weight); }
  // A value near the middle of x over the items of a query. Products and losses do not change when
  // it is taken off x, but rounding errors then go with the spread of x, not with its size.
  double centre(std::size_t query, const double* x) const;
  // By row: x minus the centre of its query. Returns the sum over queries of
  // weight * (sum of item weight * |centred x|)^2: the scale of the rounding errors in a quadratic
  // form of the violated pairs.
  double centred(const double* x, double* out, const Context& context) const;
  // Comparable pairs of a query, and the sum of their item weights' products.
  int64_t pairs(std::size_t query) const { return pairs_[query]; }
  double pair_weight(std::size_t query) const { return pair_weight_[query]; }
  // Where evaluations get their arrays from.
  const std::shared_ptr<Memory>& memory() const { return memory_; }
  // Calls body(q, context) for every query: small ones in parallel, in batches of similar work, and
  // then each large one with all threads to itself.
  template <class Body>
  void for_each_query(const Context& context, Body&& body) const {
    auto batch = [&](std::size_t b, const Context& serial) {
      for (uint32_t q = batches_[b].first; q < batches_[b].second; ++q) body(q, serial);
    };
    if (size_ < kWorthThreads) {
      context.one_thread().parallel_for(batches_.size(), batch);
    } else {
      context.parallel_for(batches_.size(), batch);
    }
    for (const uint32_t q : large_) body(q, context);
  }

 private:
  uint32_t build_tree(Query& query);

  int64_t size_ = 0, mask_words_ = 0;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  std::vector<Query> queries_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> row_, level_, level_start_;
  std::vector<uint8_t> digits_;
  std::vector<double> item_weight_, query_weight_, pair_weight_;
  std::vector<int64_t> pairs_;
  std::vector<std::pair<uint32_t, uint32_t>> batches_;
  std::vector<uint32_t> large_;
};

}  // namespace ranksvm
