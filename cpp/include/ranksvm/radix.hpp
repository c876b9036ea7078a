// Radix counting of violated pairs, in one paragraph. The items of a query stand in relevance
// order; a static tree cuts that order into at most kFan children a node, so "better" at a node
// means "in a later child". At fixed scores a node sees its items in score order, each with the
// number of its child (`digit`) and two ranks: `hi`, how many items of the node score less than a
// margin above it, and `lo`, how many score at least a margin below it. The better partners of item
// p that it violates a pair with are the first hi[p] items with a larger digit; its worse partners
// are the items from lo[p] on with a smaller digit. Both are read off a table of running sums,
// T[h][c] = sum over the first h items with digit >= c of the payload, whose row is one or two
// vector registers and of which only a window of kWindow rows exists at a time. The same table with
// payload 1 gives the ranks inside the children. The tree ends in leaves of at most kLeaf items,
// where the violated pairs are one bit mask an item.
#pragma once

#include <cstdint>

namespace ranksvm {

constexpr unsigned kFan = 15;         // children of a node; lane 15 of a row stays zero
constexpr unsigned kLanes = 16;       // width of a row of running sums
constexpr unsigned kWindow = 128;     // rows of running sums alive at a time
constexpr unsigned kLeaf = 64;        // items of a leaf, one bit each
constexpr unsigned kMaskItems = 128;  // items of a query that is one leaf by itself

// Words of the masks of a leaf.
constexpr unsigned mask_words(unsigned items) { return (items + 63) / 64; }

// What a sweep does. Items move on when both of their look-ups are made. One thread makes them in
// such an order that an item moves right after its second one; several threads make all look-ups
// first, and move the items in a second round.
enum class Round { all, look_up, move };

struct PairCount {
  uint32_t above, below;
};

// The upper look-up of an item: its rank `hi` inside its child, and its better partners.
struct UpperCount {
  uint32_t child_hi, above;
};

// Counting sweep over items [first, last) of a node of n items. All positions are relative to the
// query; `node` is the position of the node's first item. Items move on to where the node below
// wants them, in score order; those of a child that is no node go to their position.
struct CountSweep {
  uint32_t n, first, last, node;
  const uint32_t* start;        // [kLanes] running counts before `first`
  const uint32_t* child_begin;  // [kLanes] first position of each child
  const uint8_t* child_inner;   // [kLanes] whether the child is a node of its own
  const uint8_t* digit;         // these five: score order
  const uint32_t* position;
  const uint32_t* hi;
  const uint32_t* lo;
  PairCount* count;       // pairs counted so far; `below` is added to on the way
  uint32_t* target;       // out, score order
  uint32_t* child_lo;     // work, score order
  UpperCount* upper;      // work, score order; of rounds alone
  uint32_t* position_to;  // out, by target, of inner children
  uint32_t* hi_to;
  uint32_t* lo_to;
  PairCount* count_to;     // out, by target, of inner children
  PairCount* count_final;  // out, by position, of the others
};

// An item on its way down the tree: its payload, and what was summed over its partners so far:
// over all of them, over the better and the worse ones apart, the difference of both, or one
// payload over the better ones and another one over the worse ones.
struct SumRecord {
  static constexpr unsigned kPayloads = 1;
  double value[1], sum = 0.0;
};
struct SplitRecord {
  static constexpr unsigned kPayloads = 1;
  double value[1], above = 0.0, below = 0.0;
};
struct NetRecord {
  static constexpr unsigned kPayloads = 2;
  double value[2], net[2] = {0.0, 0.0};
};
struct RoleRecord {
  static constexpr unsigned kPayloads = 2;
  double value[2], above = 0.0, below = 0.0;
};
constexpr unsigned kMostPayloads = 2;

// Summing sweep over items [first, last) of a node; from `in` (score order of the node) to `out`
// (order of the children). The part of `below` that all items of a child share is left out. Running
// sums are kLanes for each payload, one payload after the other.
template <class Rec>
struct SumSweep {
  uint32_t n, first, last;
  const double* start;  // running sums before `first`
  const uint8_t* digit;
  const uint32_t* hi;
  const uint32_t* lo;
  const uint32_t* target;
  Rec* in;
  Rec* out;
  double* upper;  // work, score order, one for each payload; of rounds alone
  double* end;    // running sums after `last`
};

}  // namespace ranksvm
