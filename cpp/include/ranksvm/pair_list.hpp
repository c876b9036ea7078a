// Explicit pairs: a list of better and worse items, with a weight for each pair.
//
// The violated pairs of a list (see plan.hpp) are found by looking at every pair. The list is kept
// by item, each pair twice: an item knows its better partners and its worse ones, so that each of
// its statistics is a sum over its own partners, always in the same order. Items are then
// independent of each other, and any number of threads gives the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ranksvm/buffer.hpp"
#include "ranksvm/parallel.hpp"
#include "ranksvm/plan.hpp"

namespace ranksvm {

class PairList {
 public:
  // Row numbers of the items of each pair; they must lie in [0, n_items). Weights may be null (all
  // ones).
  PairList(const int64_t* better, const int64_t* worse, const double* weight, int64_t n_pairs,
           int64_t n_items, const Context& context);

  int64_t size() const { return size_; }  // items
  int64_t pairs() const { return static_cast<int64_t>(partner_.size() / 2); }
  bool weighted() const { return weight_.size() > 0; }
  // The better partners of an item are from start(2 item) to start(2 item + 1), the worse ones go
  // on to start(2 item + 2).
  int64_t start(int64_t side) const { return start_[side]; }
  const uint32_t* partner() const { return partner_.data(); }
  const double* weight() const { return weight_.data(); }
  // A factor of all weights; not to be changed while a plan is in use.
  double factor() const { return factor_; }
  void set_factor(double factor) { factor_ = factor; }
  // Where evaluations get their arrays from.
  const std::shared_ptr<Memory>& memory() const { return memory_; }

  // Calls body(piece, first item, last item) for pieces of the items with similar numbers of pairs.
  template <class Body>
  void for_each_piece(const Context& context, Body&& body) const {
    const Context some = static_cast<int64_t>(partner_.size()) + size_ < kWorthThreads
                             ? context.one_thread()
                             : context;
    some.parallel_for(pieces(),
                      [&](std::size_t p, const Context&) { body(p, piece_[p], piece_[p + 1]); });
  }
  std::size_t pieces() const { return piece_.size() - 1; }

 private:
  int64_t size_;
  double factor_ = 1.0;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  std::vector<int64_t> start_, piece_;
  Buffer<uint32_t> partner_;
  Buffer<double> weight_;
};

// Pairs of items {i, j} that the list has both ways, each counted once.
int64_t count_contradictions(const PairList& list, const Context& context);

// By item: the first of the items that pairs connect it with, directly or by way of others. An item
// without a pair is connected with itself.
void connected_items(const PairList& list, int64_t* out, const Context& context);

// Margin > 0; scores by row. The plan keeps the violated partners of every item and shares the
// list.
std::unique_ptr<Plan> make_pair_list_plan(std::shared_ptr<const PairList> list,
                                          const double* scores, double margin,
                                          const Context& context);

}  // namespace ranksvm
