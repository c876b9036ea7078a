#include "ranksvm/order.hpp"

#include <algorithm>
#include <array>
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
  for (uint32_t begin = first; begin < last;) {
    if (ends.size() >= kFan) return {};
    const uint64_t limit = start[begin] + most;
    const uint32_t* end = std::upper_bound(start + begin, start + last + 1, limit) - 1;
    begin = std::max(begin + 1, static_cast<uint32_t>(end - start));
    ends.push_back(begin);
  }
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

// Sums on a grid lose as many bits as the weights of pairs have.
constexpr double kMostWeight = 1024.0;

// The largest of some numbers if they are whole numbers; else more than kMostWeight.
double largest_whole(const std::vector<double>& values) {
  double largest = 0.0;
  for (const double v : values) {
    if (v > kMostWeight || v != std::floor(v)) return 2.0 * kMostWeight;
    largest = std::max(largest, v);
  }
  return largest;
}

}  // namespace

Order::Order(const double* utility, const int64_t* rows, const int64_t* offsets, int64_t n_queries,
             const double* item_weight, const double* query_weight, const Context& context,
             bool by_gain, const double* worse_weight)
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
  row_ = Buffer<uint32_t>(size_, memory_);
  level_ = Buffer<uint32_t>(size_, memory_);
  if (item_weight != nullptr) {
    item_weight_.assign(item_weight, item_weight + size_);
    all_better_ = std::all_of(item_weight, item_weight + size_, [](double w) { return w == 1.0; });
    largest_weight_ = std::max(1.0, largest_whole(item_weight_));
  }
  if (worse_weight != nullptr) {
    if (by_gain) throw std::invalid_argument("weights by role and by gain exclude each other");
    if (item_weight == nullptr) item_weight_.assign(size_, 1.0);
    worse_weight_.assign(worse_weight, worse_weight + size_);
    largest_weight_ = std::max(largest_weight_, largest_whole(worse_weight_));
  }
  if (by_gain) {
    gain_.assign(utility, utility + size_);
    largest_gain_.resize(n_queries);
    if (std::any_of(gain_.begin(), gain_.end(), [](double g) { return g < 0.0; })) {
      throw std::invalid_argument("a gain is negative");
    }
    if (largest_weight_ * largest_whole(gain_) > kMostWeight) largest_weight_ = 0.0;
  }
  if (largest_weight_ > kMostWeight) largest_weight_ = 0.0;
  if (query_weight != nullptr) query_weight_.assign(query_weight, query_weight + n_queries);

  // Queries of one batch are handled by one thread. A query that is large, and a large part of all
  // items, is handled by all threads together.
  constexpr int64_t kBatch = 4096, kFewQueries = 32;
  uint32_t begin = 0;
  int64_t items = 0;
  for (uint32_t q = 0; q < n_queries; ++q) {
    const int64_t n = offsets[q + 1] - offsets[q];
    const bool is_large = n > 2 * static_cast<int64_t>(kChunk) && n > size_ / kFewQueries;
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
    queries_[q].begin = offsets[q];
    queries_[q].size = static_cast<uint32_t>(n);
  }
  if (n_queries > begin) batches_.emplace_back(begin, static_cast<uint32_t>(n_queries));

  for_each_query(context,
                 [&](uint32_t q, const Context& inner) { arrange(q, utility, rows, inner); });
  if (n_queries == 1) {
    position_ = Buffer<uint32_t>(size_, memory_);
    for_each_chunk(size_, context, [&](std::size_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) position_[row_[i]] = static_cast<uint32_t>(i);
    });
  }
  int64_t n_starts = 0;
  for (Query& query : queries_) {
    query.level_begin = n_starts;
    n_starts += query.levels + 1;
  }
  level_start_ = Buffer<uint32_t>(n_starts, memory_);
  std::vector<std::vector<Node>> trees(n_queries);  // of more than one node
  for_each_query(context, [&](uint32_t q, const Context& inner) {
    find_levels(q, inner);
    trees[q] = tree(queries_[q], queries_[q].depth);
  });
  int64_t n_digits = 0, n_nodes = 0;
  for (std::size_t q = 0; q < queries_.size(); ++q) {
    Query& query = queries_[q];
    query.root = static_cast<uint32_t>(n_nodes);
    n_nodes += static_cast<int64_t>(trees[q].size());
    query.digit_begin = n_digits;
    n_digits += static_cast<int64_t>(query.depth) * query.size;
    query.mask_begin = mask_words_;
    const bool one_leaf = trees[q].front().kind == NodeKind::leaf;
    mask_words_ += static_cast<int64_t>(query.size) * (one_leaf ? mask_words(query.size) : 1);
  }
  nodes_ = Buffer<Node>(n_nodes, memory_);
  digits_ = Buffer<uint8_t>(n_digits, memory_);
  for_each_query(context, [&](uint32_t q, const Context& inner) {
    const Query& query = queries_[q];
    for (Node& node : trees[q]) node.first_child += query.root;
    std::copy(trees[q].begin(), trees[q].end(), nodes_.data() + query.root);
    fill_digits(query, inner);
  });
}

// Sorts the items of a query by utility, and numbers their levels.
void Order::arrange(std::size_t q, const double* utility, const int64_t* rows,
                    const Context& context) {
  Query& query = queries_[q];
  const int64_t first = query.begin;
  const uint32_t n = query.size;
  Buffer<double> key(n, memory_), sorted(n, memory_);
  Buffer<uint32_t> order(n, memory_);
  for_each_chunk(n, context, [&](std::size_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      key[i] = utility[rows[first + i]];
      if (!std::isfinite(key[i])) throw std::invalid_argument("a utility is not finite");
    }
  });
  argsort(key.data(), n, order.data(), sorted.data(), memory_, context);
  // Levels are numbered inside the chunks, and then shifted by those of the chunks before.
  std::vector<uint32_t> levels((n + kChunk - 1) / kChunk + 1, 0);
  auto is_new = [&](int64_t i) { return i > 0 && sorted[i] != sorted[i - 1]; };
  for_each_chunk(n, context, [&](std::size_t chunk, int64_t begin, int64_t end) {
    uint32_t level = 0;
    for (int64_t i = begin; i < end; ++i) {
      row_[first + i] = static_cast<uint32_t>(rows[first + order[i]]);
      level += is_new(i);
      level_[first + i] = level;
    }
    levels[chunk + 1] = level;
  });
  for (std::size_t c = 1; c < levels.size(); ++c) levels[c] += levels[c - 1];
  if (levels.size() > 2) {
    for_each_chunk(n, context, [&](std::size_t chunk, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) level_[first + i] += levels[chunk];
    });
  }
  query.levels = n == 0 ? 0 : levels.back() + 1;
}

// Finds where the levels of a query begin, and counts its pairs.
void Order::find_levels(std::size_t q, const Context& context) {
  const Query& query = queries_[q];
  uint32_t* start = level_start_.data() + query.level_begin;
  const uint32_t* level = level_.data() + query.begin;
  for_each_chunk(query.size, context, [&](std::size_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (i == 0 || level[i] != level[i - 1]) start[level[i]] = static_cast<uint32_t>(i);
    }
  });
  start[query.levels] = query.size;
  pairs_[q] = count_pairs(start, query.levels);
  if (weighted() || by_gain()) return weigh_pairs(q);
  pair_weight_[q] = static_cast<double>(pairs_[q]);
  mass_[q] = static_cast<double>(query.size);
}

// Sets the weight of the pairs of a query, and that of its items. By gain, a step from one level to
// the next counts in all pairs of an item below it and an item above it, so nothing cancels.
void Order::weigh_pairs(std::size_t q) {
  const Query& query = queries_[q];
  const uint32_t* start = level_start_.data() + query.level_begin;
  const uint32_t* row = row_.data() + query.begin;
  if (by_role()) return weigh_roles(q);
  std::vector<double> own(query.levels, 0.0), better(query.levels + 1, 0.0);
  for (uint32_t l = query.levels; l-- > 0;) {
    for (uint32_t i = start[l]; i < start[l + 1]; ++i) own[l] += item_weight(row[i]);
    better[l] = better[l + 1] + own[l];  // this level and those above
  }
  double weight = 0.0, worse = 0.0;
  for (uint32_t l = 0; l < query.levels; ++l) {
    if (!by_gain()) {
      weight += own[l] * worse;
    } else if (l > 0) {
      weight += (gain_[row[start[l]]] - gain_[row[start[l - 1]]]) * (worse * better[l]);
    }
    worse += own[l];
  }
  pair_weight_[q] = weight;
  mass_[q] = worse;
  if (by_gain()) largest_gain_[q] = query.size == 0 ? 0.0 : gain_[row[query.size - 1]];
}

// The same for weights by role; only pairs of positive weight count.
void Order::weigh_roles(std::size_t q) {
  const Query& query = queries_[q];
  const uint32_t* start = level_start_.data() + query.level_begin;
  const uint32_t* row = row_.data() + query.begin;
  double weight = 0.0, mass = 0.0, worse = 0.0;
  int64_t pairs = 0, n_worse = 0;  // below the level
  for (uint32_t l = 0; l < query.levels; ++l) {
    double better = 0.0, more = 0.0;
    int64_t n_better = 0, n_more = 0;
    for (uint32_t i = start[l]; i < start[l + 1]; ++i) {
      const double as_better = item_weight(row[i]), as_worse = worse_weight(row[i]);
      better += as_better;
      more += as_worse;
      n_better += as_better > 0.0;
      n_more += as_worse > 0.0;
      mass += std::max(as_better, as_worse);
    }
    weight += better * worse;
    pairs += n_better * n_worse;
    worse += more;
    n_worse += n_more;
  }
  pairs_[q] = pairs;
  pair_weight_[q] = weight;
  mass_[q] = mass;
}

// For every depth, in which child of its node an item is.
void Order::fill_digits(const Query& query, const Context& context) {
  std::vector<uint32_t> open{query.root};  // the nodes of a depth
  for (uint32_t depth = 0; depth < query.depth; ++depth) {
    uint8_t* digit = digits_.data() + query.digit_begin + static_cast<int64_t>(depth) * query.size;
    const auto fill = [&](std::size_t i, const Context&) {
      const Node& node = nodes_[open[i]];
      for (unsigned c = 0; c < node.children; ++c) {
        const Node& child = nodes_[node.first_child + c];
        std::fill(digit + child.begin, digit + child.end, static_cast<uint8_t>(c));
      }
    };
    (query.size < kWorthThreads ? context.one_thread() : context).parallel_for(open.size(), fill);
    std::vector<uint32_t> below;
    for (const uint32_t index : open) {
      for (unsigned c = 0; c < nodes_[index].children; ++c) {
        const uint32_t child = nodes_[index].first_child + c;
        if (nodes_[child].kind == NodeKind::inner) below.push_back(child);
      }
    }
    open = std::move(below);
  }
}

namespace {

// Rounds x of n rows to a grid, for sums with weights that add up to `mass`; returns how far that
// may have moved one, together with its centring before.
double to_grid(const uint32_t* row, uint32_t n, double mass, double* x, const Context& context) {
  std::vector<double> most((n + kChunk - 1) / kChunk);
  for_each_chunk(n, context, [&](std::size_t chunk, int64_t begin, int64_t end) {
    double largest = 0.0;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[row[i]]));
    most[chunk] = largest;
  });
  const double largest = most.empty() ? 0.0 : *std::max_element(most.begin(), most.end());
  // Sums of all elements, and of as many margins, times four, take at most 53 bits.
  const double whole = std::exp2(std::ilogb(std::max(1.0, mass) * (largest + 1.0)) + 1);
  const double step = std::ldexp(whole, -50);
  for_each_chunk(n, context, [&](std::size_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[row[i]] = std::nearbyint(x[row[i]] / step) * step;
  });
  return 0.5 * step + 4e-16 * largest;
}

}  // namespace

Magnitudes Order::centred(const double* x, bool on_grid, double* out,
                          const Context& context) const {
  std::vector<Magnitudes> magnitudes(queries_.size());
  const bool in_order = queries_.size() == 1 && !weighted();  // all rows: in their own order
  for_each_query(context, [&](uint32_t q, const Context& inner) {
    const Query& query = queries_[q];
    const uint32_t* row = row_.data() + query.begin;
    const double middle = centre(q, x);
    std::array<double, 2> whole = {};
    std::vector<std::array<double, 2>> parts(
        query.size <= kChunk ? 0 : (query.size + kChunk - 1) / kChunk);
    for_each_chunk(query.size, inner, [&](std::size_t chunk, int64_t begin, int64_t end) {
      double linear[4] = {}, square[4] = {};
      const auto take = [&](int64_t i, int k) {
        const int64_t r = in_order ? i : row[i];
        const double c = out[r] = x[r] - middle;
        const double own = in_order ? std::abs(c) : most_weight(row[i]) * std::abs(c);
        linear[k] += own;
        square[k] += own * std::abs(c);
      };
      int64_t i = begin;
      for (; i + 4 <= end; i += 4) {
        for (int k = 0; k < 4; ++k) take(i + k, k);
      }
      for (; i < end; ++i) take(i, 0);
      (parts.empty() ? whole : parts[chunk]) = {(linear[0] + linear[1]) + (linear[2] + linear[3]),
                                                (square[0] + square[1]) + (square[2] + square[3])};
    });
    if (pairs_[q] == 0) return;
    for (const auto& part : parts) {
      whole[0] += part[0];
      whole[1] += part[1];
    }
    const auto [linear, square] = whole;
    const double pull = mass_[q] * largest_gain(q);  // at most, of all partners of an item
    const double mass = query_weight(q) * pull, times = additions(query.size);
    const double moved =
        on_grid ? to_grid(row, query.size, pull * largest_weight_, out, inner) : 0.0;
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

// The nodes of a query, breadth first: first_child counts from the root. Sets its depth.
std::vector<Node> Order::tree(const Query& query, uint32_t& depth) const {
  const uint32_t* start = level_start_.data() + query.level_begin;
  struct Open {
    uint32_t first_level, last_level, depth;
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
  std::vector<Node> nodes{make(0, query.levels)};
  if (nodes[0].kind == NodeKind::inner && query.size <= kMaskItems) nodes[0].kind = NodeKind::leaf;
  depth = 0;
  if (nodes[0].kind != NodeKind::inner) return nodes;
  std::vector<Open> open{{0, query.levels, 0}};  // of each node
  for (std::size_t head = 0; head < nodes.size(); ++head) {
    if (nodes[head].kind != NodeKind::inner) continue;
    const Open here = open[head];
    depth = std::max(depth, here.depth + 1);
    const std::vector<uint32_t> ends = children(start, here.first_level, here.last_level);
    nodes[head].first_child = static_cast<uint32_t>(nodes.size());
    nodes[head].children = static_cast<uint8_t>(ends.size());
    uint32_t first = here.first_level;
    for (const uint32_t end : ends) {
      nodes.push_back(make(first, end));
      open.push_back({first, end, here.depth + 1});
      first = end;
    }
  }
  return nodes;
}

}  // namespace ranksvm
