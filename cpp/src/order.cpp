#include "ranksvm/order.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include "ranksvm/sort.hpp"

namespace ranksvm {
namespace {

// Ends of the children of levels [first, last), closing a child before it grows past `most` items;
// empty when that takes more than kFan children. A level larger than `most` has a child to itself.
std::vector<uint32_t> cut(const uint32_t* start, uint32_t first, uint32_t last, uint64_t most) {
  std::vector<uint32_t> ends;
  uint32_t begin = first;
  for (uint32_t l = first; l < last; ++l) {
    if (l > begin && static_cast<uint64_t>(start[l + 1]) - start[begin] > most) {
      ends.push_back(l);
      begin = l;
      if (ends.size() >= kFan) return {};
    }
  }
  ends.push_back(last);
  return ends;
}

// Children of a node as even as the levels allow.
std::vector<uint32_t> children(const uint32_t* start, uint32_t first, uint32_t last) {
  const uint64_t n = start[last] - start[first];
  uint64_t most = (n + kFan - 1) / kFan;
  for (;;) {
    std::vector<uint32_t> ends = cut(start, first, last, most);
    if (!ends.empty()) return ends;
    most += most / 16 + 1;
  }
}

}  // namespace

Order::Order(const double* utility, const int64_t* rows, const int64_t* offsets, int64_t n_queries,
             const double* item_weight, const double* query_weight, const Context& context)
    : size_(offsets[n_queries]) {
  constexpr int64_t kMost = (int64_t{1} << 32) - (int64_t{1} << 18);  // room for 32-bit sums
  if (size_ > kMost || n_queries > kMost) {
    throw std::length_error("at most 2^32 - 2^18 items are supported, got " +
                            std::to_string(size_));
  }
  queries_.resize(n_queries);
  pairs_.resize(n_queries);
  pair_weight_.resize(n_queries);
  mass_.resize(n_queries);
  row_.resize(size_);
  level_.resize(size_);
  if (item_weight != nullptr) {
    item_weight_.assign(item_weight, item_weight + size_);
    constexpr double kMostWeight = 1024.0;
    for (const double w : item_weight_) {
      if (w > kMostWeight || w != std::floor(w)) {
        largest_weight_ = 0.0;
        break;
      }
      largest_weight_ = std::max(largest_weight_, w);
    }
  }
  if (query_weight != nullptr) query_weight_.assign(query_weight, query_weight + n_queries);

  // Queries of one batch are handled by one thread; a large query is handled by all of them.
  constexpr int64_t kBatch = 4096;
  uint32_t begin = 0;
  int64_t items = 0;
  for (uint32_t q = 0; q < n_queries; ++q) {
    const int64_t n = offsets[q + 1] - offsets[q];
    const bool is_large = n > 2 * static_cast<int64_t>(kChunk);
    if (is_large || items + n > kBatch) {
      if (q > begin) batches_.emplace_back(begin, q);
      begin = is_large ? q + 1 : q;
      items = 0;
    }
    if (is_large) {
      large_.push_back(q);
    } else {
      items += n;
    }
  }
  if (n_queries > begin) batches_.emplace_back(begin, static_cast<uint32_t>(n_queries));

  auto arrange = [&](uint32_t q, const Context& inner) {
    const int64_t first = offsets[q];
    const auto n = static_cast<uint32_t>(offsets[q + 1] - first);
    Buffer<double> key(n, memory_), sorted(n, memory_);
    Buffer<uint32_t> order(n, memory_);
    for (uint32_t i = 0; i < n; ++i) {
      key[i] = utility[rows[first + i]];
      if (!std::isfinite(key[i])) throw std::invalid_argument("a utility is not finite");
    }
    argsort(key.data(), n, order.data(), sorted.data(), memory_, inner);
    uint32_t level = 0;
    for (uint32_t i = 0; i < n; ++i) {
      row_[first + i] = static_cast<uint32_t>(rows[first + order[i]]);
      if (i > 0 && sorted[i] != sorted[i - 1]) ++level;
      level_[first + i] = level;
    }
    Query& query = queries_[q];
    query.begin = first;
    query.size = n;
    query.levels = n == 0 ? 0 : level + 1;
  };
  for_each_query(context, arrange);

  int64_t n_starts = 0, n_digits = 0;
  for (Query& query : queries_) {
    query.level_begin = n_starts;
    n_starts += query.levels + 1;
  }
  level_start_.resize(n_starts);
  for (std::size_t q = 0; q < queries_.size(); ++q) {
    Query& query = queries_[q];
    uint32_t* start = level_start_.data() + query.level_begin;
    for (uint32_t i = 0; i < query.size; ++i) {
      const int64_t position = query.begin + i;
      if (i == 0 || level_[position] != level_[position - 1]) start[level_[position]] = i;
    }
    start[query.levels] = query.size;
    const int64_t pairs = count_pairs(start, query.levels);
    double weight = 0.0, worse = 0.0;
    for (uint32_t l = 0; l < query.levels && item_weight != nullptr; ++l) {
      double own = 0.0;
      for (uint32_t i = start[l]; i < start[l + 1]; ++i) own += item_weight_[row_[query.begin + i]];
      weight += own * worse;
      worse += own;
    }
    pairs_[q] = pairs;
    pair_weight_[q] = item_weight != nullptr ? weight : static_cast<double>(pairs);
    mass_[q] = item_weight != nullptr ? worse : static_cast<double>(query.size);
    query.root = static_cast<uint32_t>(nodes_.size());
    query.depth = build_tree(query);
    query.digit_begin = n_digits;
    n_digits += static_cast<int64_t>(query.depth) * query.size;
    query.mask_begin = mask_words_;
    const bool one_leaf = nodes_[query.root].kind == NodeKind::leaf;
    mask_words_ += static_cast<int64_t>(query.size) * (one_leaf ? mask_words(query.size) : 1);
  }
  digits_.resize(n_digits);
  for (const Query& query : queries_) {
    std::vector<std::pair<uint32_t, uint32_t>> open{{query.root, 0U}};  // node and depth
    while (!open.empty()) {
      const auto [index, depth] = open.back();
      open.pop_back();
      const Node& node = nodes_[index];
      if (node.kind != NodeKind::inner) continue;
      uint8_t* digit =
          digits_.data() + query.digit_begin + static_cast<int64_t>(depth) * query.size;
      for (unsigned c = 0; c < node.children; ++c) {
        const Node& child = nodes_[node.first_child + c];
        std::fill(digit + child.begin, digit + child.end, static_cast<uint8_t>(c));
        open.emplace_back(node.first_child + c, depth + 1);
      }
    }
  }
}

namespace {

// Rounds x of n rows to a grid, for sums with weights that add up to `mass`; returns how far that
// may have moved one, together with its centring before.
double to_grid(const uint32_t* row, uint32_t n, double mass, double* x) {
  double largest = 0.0;
  for (uint32_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[row[i]]));
  // Sums of all elements, and of as many margins, times four, take at most 53 bits.
  const double whole = std::exp2(std::ilogb(std::max(1.0, mass) * (largest + 1.0)) + 1);
  const double step = std::ldexp(whole, -50);
  for (uint32_t i = 0; i < n; ++i) x[row[i]] = std::nearbyint(x[row[i]] / step) * step;
  return 0.5 * step + 4e-16 * largest;
}

}  // namespace

Magnitudes Order::centred(const double* x, bool on_grid, double* out,
                          const Context& context) const {
  std::vector<Magnitudes> magnitudes(queries_.size());
  for_each_query(context, [&](uint32_t q, const Context&) {
    const Query& query = queries_[q];
    const uint32_t* row = row_.data() + query.begin;
    const double middle = centre(q, x);
    double linear = 0.0, square = 0.0;
    if (queries_.size() == 1 && !weighted()) {  // all rows: in their own order
      double part[4] = {}, part2[4] = {};
      int64_t i = 0;
      for (; i + 4 <= size_; i += 4) {
        for (int k = 0; k < 4; ++k) {
          const double c = out[i + k] = x[i + k] - middle;
          part[k] += std::abs(c);
          part2[k] += c * c;
        }
      }
      for (; i < size_; ++i) {
        const double c = out[i] = x[i] - middle;
        part[0] += std::abs(c);
        part2[0] += c * c;
      }
      linear = (part[0] + part[1]) + (part[2] + part[3]);
      square = (part2[0] + part2[1]) + (part2[2] + part2[3]);
    } else {
      for (uint32_t i = 0; i < query.size; ++i) {
        const double c = out[row[i]] = x[row[i]] - middle;
        const double own = item_weight(row[i]) * std::abs(c);
        linear += own;
        square += own * std::abs(c);
      }
    }
    if (pairs_[q] == 0) return;
    const double mass = query_weight(q) * mass_[q], times = additions(query.size);
    const double moved = on_grid ? to_grid(row, query.size, mass_[q] * largest_weight_, out) : 0.0;
    magnitudes[q] = {mass * linear, mass * square, times * mass * linear, times * mass * square,
                     moved};
  });
  Magnitudes total;
  for (const Magnitudes& m : magnitudes) {
    total.linear += m.linear;
    total.square += m.square;
    total.linear_additions += m.linear_additions;
    total.square_additions += m.square_additions;
    total.moved = std::max(total.moved, m.moved);
  }
  return total;
}

// Appends the nodes of a query, breadth first; returns its depth.
uint32_t Order::build_tree(Query& query) {
  const uint32_t* start = level_start_.data() + query.level_begin;
  struct Open {
    uint32_t node, first_level, last_level, depth;
  };
  auto make = [&](uint32_t first, uint32_t last) {
    Node node{start[first], start[last], 0, 0, NodeKind::inner};
    if (last - first <= 1) {
      node.kind = NodeKind::flat;
    } else if (node.end - node.begin <= kLeaf) {
      node.kind = NodeKind::leaf;
    }
    return node;
  };
  nodes_.push_back(make(0, query.levels));
  Node& root = nodes_.back();
  if (root.kind == NodeKind::inner && query.size <= kMaskItems) root.kind = NodeKind::leaf;
  std::vector<Open> queue{{static_cast<uint32_t>(nodes_.size() - 1), 0, query.levels, 0}};
  uint32_t deepest = 0;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const Open open = queue[head];
    if (nodes_[open.node].kind != NodeKind::inner) continue;
    deepest = std::max(deepest, open.depth + 1);
    const std::vector<uint32_t> ends = children(start, open.first_level, open.last_level);
    nodes_[open.node].first_child = static_cast<uint32_t>(nodes_.size());
    nodes_[open.node].children = static_cast<uint8_t>(ends.size());
    uint32_t first = open.first_level;
    for (const uint32_t end : ends) {
      nodes_.push_back(make(first, end));
      queue.push_back({static_cast<uint32_t>(nodes_.size() - 1), first, end, open.depth + 1});
      first = end;
    }
  }
  return deepest;
}

}  // namespace ranksvm
