// Red-black order-statistics tree with payload sums (Airola, Pahikkala & Salakoski, section 4.2).
//
// Keys that were inserted before share one node, which counts them (`nodesize`); every node also
// knows the size and the payload sums of its subtree, so that the number of inserted keys above or
// below a given one, and their payload, take one walk from the root: O(log r) for r distinct keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ranksvm {

template <unsigned kPayloads>
class RedBlackTree {
 public:
  using Payload = std::array<double, kPayloads>;

  struct Total {
    uint64_t size = 0;
    Payload sum{};
  };

  RedBlackTree() { clear(); }

  void clear() {
    nodes_.clear();
    nodes_.push_back({});  // the sentinel: black, empty, its own child
    root_ = kNil;
  }

  void reserve(std::size_t distinct) { nodes_.reserve(distinct + 1); }
  std::size_t distinct() const { return nodes_.size() - 1; }
  uint64_t size() const { return nodes_[root_].subtree.size; }

  void insert(uint32_t key, const Payload& payload) {
    uint32_t parent = kNil, at = root_;
    while (at != kNil) {
      Node& node = nodes_[at];
      add(node.subtree, payload);  // the new key ends up below, or in this node
      if (key == node.key) {
        add(node.own, payload);
        return;
      }
      parent = at;
      at = node.child[key > node.key];
    }
    const auto fresh = static_cast<uint32_t>(nodes_.size());
    Node node;
    node.key = key;
    node.parent = parent;
    node.red = true;
    add(node.own, payload);
    node.subtree = node.own;
    nodes_.push_back(node);
    if (parent == kNil) {
      root_ = fresh;
    } else {
      nodes_[parent].child[key > nodes_[parent].key] = fresh;
    }
    rebalance(fresh);
  }

  // Everything inserted with a larger (`kSide` = 1) or smaller (0) key.
  template <unsigned kSide>
  Total beyond(uint32_t key) const {
    Total total;
    for (uint32_t at = root_; at != kNil;) {
      const Node& node = nodes_[at];
      const bool inside = kSide == 1 ? node.key > key : node.key < key;
      if (inside) {
        add(total, node.own);
        add(total, nodes_[node.child[kSide]].subtree);
        at = node.child[1 - kSide];
      } else {
        at = node.child[kSide];
      }
    }
    return total;
  }
  Total larger(uint32_t key) const { return beyond<1>(key); }
  Total smaller(uint32_t key) const { return beyond<0>(key); }

  // Whether all invariants of a red-black order-statistics tree hold; for tests.
  bool valid() const { return !nodes_[root_].red && black_height(root_, 0, UINT32_MAX) >= 0; }

 private:
  static constexpr uint32_t kNil = 0;

  struct Node {
    uint32_t key = 0, parent = kNil;
    uint32_t child[2] = {kNil, kNil};
    bool red = false;
    Total own, subtree;
  };

  static void add(Total& total, const Payload& payload) {
    ++total.size;
    for (unsigned k = 0; k < kPayloads; ++k) total.sum[k] += payload[k];
  }
  static void add(Total& total, const Total& other) {
    total.size += other.size;
    for (unsigned k = 0; k < kPayloads; ++k) total.sum[k] += other.sum[k];
  }

  void refresh(uint32_t at) {
    Node& node = nodes_[at];
    node.subtree = node.own;
    add(node.subtree, nodes_[node.child[0]].subtree);
    add(node.subtree, nodes_[node.child[1]].subtree);
  }

  // The child on the other side of `side` comes up.
  void rotate(uint32_t at, unsigned side) {
    const uint32_t up = nodes_[at].child[1 - side];
    const uint32_t inner = nodes_[up].child[side];
    nodes_[at].child[1 - side] = inner;
    if (inner != kNil) nodes_[inner].parent = at;
    const uint32_t parent = nodes_[at].parent;
    nodes_[up].parent = parent;
    if (parent == kNil) {
      root_ = up;
    } else {
      nodes_[parent].child[nodes_[parent].child[1] == at] = up;
    }
    nodes_[up].child[side] = at;
    nodes_[at].parent = up;
    nodes_[up].subtree = nodes_[at].subtree;
    refresh(at);
  }

  void rebalance(uint32_t at) {
    while (nodes_[nodes_[at].parent].red) {
      uint32_t parent = nodes_[at].parent;
      const uint32_t grandparent = nodes_[parent].parent;
      const unsigned side = nodes_[grandparent].child[1] == parent;
      const uint32_t uncle = nodes_[grandparent].child[1 - side];
      if (nodes_[uncle].red) {
        nodes_[parent].red = nodes_[uncle].red = false;
        nodes_[grandparent].red = true;
        at = grandparent;
        continue;
      }
      if (nodes_[parent].child[1 - side] == at) {
        rotate(parent, side);
        parent = at;
      }
      nodes_[parent].red = false;
      nodes_[grandparent].red = true;
      rotate(grandparent, 1 - side);
      break;
    }
    nodes_[root_].red = false;
  }

  // Black height of a subtree whose keys must lie in [low, high]; -1 when an invariant fails.
  int black_height(uint32_t at, uint32_t low, uint32_t high) const {
    if (at == kNil) return 0;
    const Node& node = nodes_[at];
    if (node.key < low || node.key > high) return -1;
    int height[2];
    uint64_t size = node.own.size;
    for (unsigned side = 0; side < 2; ++side) {
      const uint32_t child = node.child[side];
      if (child != kNil) {
        if (nodes_[child].parent != at || (node.red && nodes_[child].red)) return -1;
        if (side == 0 ? node.key == 0 : node.key == UINT32_MAX) return -1;
      }
      size += nodes_[child].subtree.size;
      height[side] =
          side == 0 ? black_height(child, low, node.key == 0 ? 0 : node.key - 1)
                    : black_height(child, node.key == UINT32_MAX ? node.key : node.key + 1, high);
    }
    if (height[0] < 0 || height[0] != height[1] || size != node.subtree.size) return -1;
    return height[0] + (node.red ? 0 : 1);
  }

  std::vector<Node> nodes_;
  uint32_t root_ = kNil;
};

}  // namespace ranksvm
