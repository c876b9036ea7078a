// Loops over the queries of a ranking, shared among the threads, and arrays for one of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ranksvm/buffer.hpp"
#include "ranksvm/parallel.hpp"

namespace ranksvm {

constexpr int64_t kLargeQuery = int64_t{1} << 16;  // above this, for all threads together
constexpr int64_t kQueryPart = int64_t{1} << 14;   // of such a query, for one thread

// Calls body(q, context) for every query: small ones in batches, then each large one with all
// threads to itself.
template <class Body>
void for_each_query(const int64_t* offsets, int64_t n_queries, const Context& context,
                    Body&& body) {
  constexpr int64_t kBatch = 8192;                     // items that a thread takes at a time
  constexpr int64_t kWorthThreads = int64_t{1} << 15;  // less is done before others have woken up
  std::vector<std::pair<int64_t, int64_t>> batches;
  std::vector<int64_t> large;
  int64_t begin = 0;
  for (int64_t q = 0; q < n_queries; ++q) {
    const bool is_large = offsets[q + 1] - offsets[q] > kLargeQuery;
    if (is_large || offsets[q + 1] - offsets[begin] > kBatch) {
      if (q > begin) batches.emplace_back(begin, q);
      begin = is_large ? q + 1 : q;
    }
    if (is_large) large.push_back(q);
  }
  if (n_queries > begin) batches.emplace_back(begin, n_queries);
  const bool worth = offsets[n_queries] >= kWorthThreads;
  (worth ? context : context.one_thread())
      .parallel_for(batches.size(), [&](std::size_t b, const Context& serial) {
        for (int64_t q = batches[b].first; q < batches[b].second; ++q) body(q, serial);
      });
  for (const int64_t q : large) body(q, context);
}

// Calls body(part, begin, end) for parts of a query of n items.
template <class Body>
void for_each_part(int64_t n, const Context& context, Body&& body) {
  if (n <= kQueryPart) {
    if (n > 0) body(std::size_t{0}, int64_t{0}, n);
    return;
  }
  context.parallel_for((n + kQueryPart - 1) / kQueryPart, [&](std::size_t p, const Context&) {
    const int64_t begin = static_cast<int64_t>(p) * kQueryPart;
    body(p, begin, std::min(begin + kQueryPart, n));
  });
}

// An array of one query, on the stack if it is short.
template <class T>
class QueryArray {
 public:
  QueryArray(int64_t n, const std::shared_ptr<Memory>& memory)
      : many_(n > kFew ? static_cast<std::size_t>(n) : 0, memory),
        data_(n > kFew ? many_.data() : few_) {}
  T* data() { return data_; }

 private:
  static constexpr int64_t kFew = 512;
  T few_[kFew];
  Buffer<T> many_;
  T* data_;
};

}  // namespace ranksvm
