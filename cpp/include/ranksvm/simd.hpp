// The inner loops that exist once per instruction set, behind one table of function pointers.
//
// Radix descent in one paragraph. The items of a query stand in relevance order; a static tree cuts
// that order into at most kFan children a node, so "better" at a node means "in a later child". At
// fixed scores a node sees its items in score order, each with the number of its child (`digit`)
// and two ranks: `hi`, how many items of the node score less than a margin above it, and `lo`, how
// many score at least a margin below it. The better partners of item p that it violates a pair with
// are the first hi[p] items with a larger digit; its worse partners are the items from lo[p] on
// with a smaller digit. Both are read off a table of running sums, T[h][c] = sum over the first h
// items with digit >= c of the payload, whose row is one or two vector registers and of which only
// a window of kWindow rows exists at a time. The same table with payload 1 gives the ranks inside
// the children. The tree ends in leaves of at most kLeaf items, where the violated pairs are one
// bit mask an item.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ranksvm/simd_tiles.hpp"

namespace ranksvm {

constexpr unsigned kFan = 15;         // children of a node; lane 15 of a row stays zero
constexpr unsigned kLanes = 16;       // width of a row of running sums
constexpr unsigned kWindow = 128;     // rows of running sums alive at a time
constexpr unsigned kLeaf = 64;        // items of a leaf, one bit each
constexpr unsigned kMaskItems = 128;  // items of a query that is one leaf by itself

// Words of the masks of a leaf.
constexpr unsigned mask_words(unsigned items) { return (items + 63) / 64; }

// Which of the two look-ups a sweep makes. A node swept by several threads makes them in two
// rounds.
enum class Ranks { lower = 1, upper = 2, both = 3 };

struct PairCount {
  uint32_t above, below;
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
  uint32_t* position_to;  // out, by target, of inner children
  uint32_t* hi_to;
  uint32_t* lo_to;
  PairCount* count_to;     // out, by target, of inner children
  PairCount* count_final;  // out, by position, of the others
};

struct Record {
  double value, sum = 0.0;
};
struct SplitRecord {
  double value, above = 0.0, below = 0.0;
};

// Summing sweep over items [first, last) of a node; from `in` (score order of the node) to `out`
// (order of the children). The part of `below` that all items of a child share is left out.
template <class Rec>
struct SumSweep {
  uint32_t n, first, last;
  const double* start;  // [kLanes] running sums before `first`
  const uint8_t* digit;
  const uint32_t* hi;
  const uint32_t* lo;
  const uint32_t* target;
  Rec* in;
  Rec* out;
  double* end;  // [kLanes] running sums after `last`
};

struct SimdLoops {
  const char* name;
  void (*count_sweep)(const CountSweep&, Ranks);
  void (*sum_sweep)(const SumSweep<Record>&, Ranks);
  void (*split_sweep)(const SumSweep<SplitRecord>&, Ranks);
  // Violated pairs among n <= kMaskItems items in relevance order: bit j of the mask of i (word
  // j / 64 of mask_words(n)) is set when the pair of i and j is comparable and violated; count[i]
  // is added to. Items of one level share level[].
  void (*leaf_masks)(const double* score, const uint32_t* level, unsigned n, double margin,
                     uint64_t* mask, PairCount* count);
  // sum[i] = sum of value[j] over all j with bit i in their mask.
  void (*leaf_sums)(const double* value, const uint64_t* mask, unsigned n, double* sum);
  // gram[i][j] += sum over the rows of a[row][i] * b[row][j], at least for i <= j. All arrays have
  // rows of `width` elements, a multiple of 8.
  void (*add_gram)(const double* a, const double* b, unsigned rows, unsigned width, double* gram);
  // Rows of a dense matrix, `stride` elements apart: out[r] = <row r, x>.
  void (*dot_rows_double)(const double* a, int64_t rows, int64_t cols, int64_t stride,
                          const double* x, double* out);
  void (*dot_rows_float)(const float* a, int64_t rows, int64_t cols, int64_t stride,
                         const double* x, double* out);
  // sum[c] += sum over the rows r of g[r] * a[r][c].
  void (*add_rows_double)(const double* a, int64_t rows, int64_t cols, int64_t stride,
                          const double* g, double* sum);
  void (*add_rows_float)(const float* a, int64_t rows, int64_t cols, int64_t stride,
                         const double* g, double* sum);
  TileLoops tiles;  // of kernel matrices
};

// The loops for the best instruction set that this processor has.
const SimdLoops& simd_loops();
// "base", "avx2" or "avx512", or nullptr when this processor or build cannot run it.
const SimdLoops* simd_loops_named(const char* name);

}  // namespace ranksvm
