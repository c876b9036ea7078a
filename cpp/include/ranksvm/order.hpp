// What never changes during training: the items of every query in relevance order.
//
// A *position* counts items query by query, each query from its worst to its best item; inside a
// query positions are relative to its first one. Items of equal utility share a *level*. For
// queries of more than kLeaf items the relevance order is also cut into the static tree of radix
// counting (radix.hpp): every child is a run of whole levels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ranksvm/buffer.hpp"
#include "ranksvm/parallel.hpp"
#include "ranksvm/radix.hpp"

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
constexpr uint32_t kChunk = 1U << 14;

// body(chunk, begin, end) for chunks of [0, n), in parallel.
template <class Body>
void for_each_chunk(int64_t n, const Context& context, Body&& body) {
  if (n <= kChunk) {
    if (n > 0) body(std::size_t{0}, int64_t{0}, n);
    return;
  }
  const auto chunks = static_cast<std::size_t>((n + kChunk - 1) / kChunk);
  const auto run = [&](std::size_t chunk, const Context&) {
    const auto begin = static_cast<int64_t>(chunk) * kChunk;
    body(chunk, begin, std::min<int64_t>(n, begin + kChunk));
  };
  if (n < kWorthThreads) {
    context.one_thread().parallel_for(chunks, run);
  } else {
    context.parallel_for(chunks, run);
  }
}

// Comparable pairs of a query from the first positions of its levels, start[0] .. start[levels]:
// each item with all items of the levels before its own. Fewer than 2^63 for 32-bit positions.
inline int64_t count_pairs(const uint32_t* start, uint32_t levels) {
  int64_t pairs = 0;
  for (uint32_t l = 0; l < levels; ++l) {
    pairs += static_cast<int64_t>(start[l]) * (start[l + 1] - start[l]);
  }
  return pairs;
}

// Of a vector x and the queries that have pairs. With query weight c, item weights v (the larger
// one of both roles) and their sum V, and the largest gain R (1 without gains): sums over queries
// of c R V sum(v |x|) and c R V sum(v x^2), and the same times `additions`: how often a term of a
// sum over partners is rounded at most, which is told in docs/certificates_proof.md.
struct Magnitudes {
  double linear = 0.0, square = 0.0, linear_additions = 0.0, square_additions = 0.0;
  double moved = 0.0;  // how far a grid has moved an element of x
};
inline double additions(uint32_t size) {
  return size <= kMaskItems ? size + 8.0 : 4.0 * size + 96.0;
}

// About the mean of value(0) .. value(n - 1): a sample will do, and overflow will not.
template <class Value>
double centre_of(uint32_t n, Value value) {
  const uint32_t step = n / 256 + 1;
  double sum = 0.0;
  uint32_t taken = 0;
  for (uint32_t i = 0; i < n; i += step, ++taken) sum += value(i) / 256.0;
  return taken == 0 ? 0.0 : sum * (256.0 / taken);
}

class Order {
 public:
  // `rows` lists the row numbers query by query, offsets[q] .. offsets[q + 1]; `utility` is by row.
  // Weights may be null (all ones); item_weight is by row. By gain: utilities are gains >= 0, and
  // the weight of a pair is multiplied by their difference. Errors go with the largest gain of a
  // query, so that the lowest one should be 0. If there is a worse_weight, it is the weight of an
  // item as the worse one of a pair, and item_weight is that as the better one; not by gain.
  Order(const double* utility, const int64_t* rows, const int64_t* offsets, int64_t n_queries,
        const double* item_weight, const double* query_weight, const Context& context,
        bool by_gain = false, const double* worse_weight = nullptr);

  int64_t size() const { return size_; }
  int64_t mask_words_total() const { return mask_words_; }
  bool weighted() const { return !item_weight_.empty(); }
  bool by_gain() const { return !gain_.empty(); }
  // Whether items have different weights as the better and as the worse one of a pair.
  bool by_role() const { return !worse_weight_.empty(); }
  bool has_grid() const { return largest_weight_ > 0.0; }
  bool query_weighted() const { return !query_weight_.empty(); }
  const std::vector<Query>& queries() const { return queries_; }
  const Node* nodes() const { return nodes_.data(); }
  const uint32_t* row() const { return row_.data(); }  // position -> row
  // Row -> position, if all items are one ranking; else null. Threads that write to random rows
  // take cache lines away from each other, which threads that read at random positions do not.
  const uint32_t* position() const { return position_.size() > 0 ? position_.data() : nullptr; }
  const uint32_t* level() const { return level_.data(); }  // position -> level inside the query
  const uint32_t* level_start(const Query& q) const { return level_start_.data() + q.level_begin; }
  const uint8_t* digits(const Query& q, uint32_t depth) const {
    return digits_.data() + q.digit_begin + static_cast<int64_t>(depth) * q.size;
  }
  // Weights, by row and by query; 1 where none were given. By role, the first is that of the better
  // item of a pair.
  double item_weight(uint32_t row) const { return item_weight_.empty() ? 1.0 : item_weight_[row]; }
  double worse_weight(uint32_t row) const {
    return worse_weight_.empty() ? item_weight(row) : worse_weight_[row];
  }
  // Whether all items have the weight 1 as the better one of a pair.
  bool all_better() const { return all_better_; }
  // The larger weight of both roles.
  double most_weight(uint32_t row) const { return std::max(item_weight(row), worse_weight(row)); }
  double query_weight(std::size_t query) const {
    return query_weight_.empty() ? 1.0 : query_weight_[query];
  }
  // By row; only by gain.
  double gain(uint32_t row) const { return gain_[row]; }
  // The largest gain of a query; 1 without gains.
  double largest_gain(std::size_t query) const {
    return largest_gain_.empty() ? 1.0 : largest_gain_[query];
  }
  // Replaces the weights of the queries; not while a plan is in use.
  void set_query_weight(std::vector<double> weight) { query_weight_ = std::move(weight); }
  // A value near the middle of x over the items of a query. Products and losses do not change when
  // it is taken off x, but rounding errors then go with the spread of x, not with its size.
  double centre(std::size_t query, const double* x) const {
    const uint32_t* row = row_.data() + queries_[query].begin;
    return centre_of(queries_[query].size, [&](uint32_t i) { return x[row[i]]; });
  }
  // By row: x minus the centre of its query. Returns what the rounding errors in linear and
  // quadratic forms of the violated pairs go with.
  //
  // On a grid: rounded to multiples of a power of two that is just coarse enough for sums over the
  // items of a query, and their products with counts, to be exact in any order. That takes item
  // weights and gains that are whole numbers, and not too large (has_grid).
  Magnitudes centred(const double* x, bool on_grid, double* out, const Context& context) const;
  // Comparable pairs of a query (by role, those of positive weight), and the sum of their weights
  // without that of the query.
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
  void arrange(std::size_t q, const double* utility, const int64_t* rows, const Context& context);
  void find_levels(std::size_t q, const Context& context);
  void weigh_pairs(std::size_t q);
  void weigh_roles(std::size_t q);
  std::vector<Node> tree(const Query& query, uint32_t& depth) const;
  void fill_digits(const Query& query, const Context& context);

  int64_t size_ = 0, mask_words_ = 0;
  bool all_better_ = true;
  // 0 if some weights or gains are no whole numbers, or too large for a grid.
  double largest_weight_ = 1.0;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  std::vector<Query> queries_;
  Buffer<Node> nodes_;
  Buffer<uint32_t> row_, position_, level_, level_start_;
  Buffer<uint8_t> digits_;
  std::vector<double> item_weight_, query_weight_, pair_weight_, mass_;  // mass: of a query's items
  std::vector<double> worse_weight_;                                     // empty unless by role
  std::vector<double> gain_, largest_gain_;                              // empty without gains
  std::vector<int64_t> pairs_;
  std::vector<std::pair<uint32_t, uint32_t>> batches_;
  std::vector<uint32_t> large_;
};

}  // namespace ranksvm
