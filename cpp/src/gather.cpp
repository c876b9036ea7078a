#include "ranksvm/gather.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace ranksvm {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 18;
constexpr int64_t kWorthThreads = int64_t{1} << 20;  // bytes

// Calls body(first, last) for pieces of n rows of so many bytes together.
template <class Body>
void for_each_piece(int64_t n, int64_t bytes, const Context& context, Body&& body) {
  const int64_t pieces = std::clamp<int64_t>(bytes / kPieceBytes, 1, std::max<int64_t>(1, n));
  const int64_t step = (n + pieces - 1) / pieces;
  if (step == 0) return;
  (bytes < kWorthThreads ? context.one_thread() : context)
      .parallel_for((n + step - 1) / step, [&](std::size_t piece, const Context&) {
        const int64_t first = static_cast<int64_t>(piece) * step;
        body(first, std::min(first + step, n));
      });
}

[[noreturn]] void no_row(int64_t row, int64_t n_rows) {
  throw std::invalid_argument("row " + std::to_string(row) + " was asked for, but there are " +
                              std::to_string(n_rows));
}

}  // namespace

void take_rows(const char* x, int64_t n_rows, int64_t stride, int64_t bytes, const int64_t* rows,
               int64_t n, char* out, const Context& context) {
  for_each_piece(n, n * bytes, context, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      if (rows[i] < 0 || rows[i] >= n_rows) no_row(rows[i], n_rows);
      if (bytes > 0)
        std::memcpy(out + i * bytes, x + rows[i] * stride, static_cast<std::size_t>(bytes));
    }
  });
}

template <class I>
void take_starts(const I* start, int64_t n_rows, int64_t n_elements, const int64_t* rows, int64_t n,
                 I* out_start) {
  int64_t total = 0;
  out_start[0] = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (rows[i] < 0 || rows[i] >= n_rows) no_row(rows[i], n_rows);
    const I begin = start[rows[i]], end = start[rows[i] + 1];
    if (begin < 0 || end < begin || end > n_elements) {
      throw std::invalid_argument("indptr does not ascend from 0 to the number of elements");
    }
    total += end - begin;
    if (total > static_cast<int64_t>(std::numeric_limits<I>::max())) {
      throw std::overflow_error("more elements than the type of the indices can count");
    }
    out_start[i + 1] = static_cast<I>(total);
  }
}

template <class T, class I>
void take_elements(const I* start, const I* column, const T* value, const int64_t* rows, int64_t n,
                   const I* out_start, I* out_column, T* out_value, const Context& context) {
  const auto bytes = static_cast<int64_t>(out_start[n] * (sizeof(T) + sizeof(I)));
  for_each_piece(n, bytes, context, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const I begin = start[rows[i]], count = out_start[i + 1] - out_start[i];
      std::copy_n(column + begin, count, out_column + out_start[i]);
      std::copy_n(value + begin, count, out_value + out_start[i]);
    }
  });
}

#define RANKSVM_TAKE(T, I)                                                                         \
  template void take_elements(const I*, const I*, const T*, const int64_t*, int64_t, const I*, I*, \
                              T*, const Context&);
#define RANKSVM_STARTS(I) \
  template void take_starts(const I*, int64_t, int64_t, const int64_t*, int64_t, I*);
RANKSVM_STARTS(int32_t)
RANKSVM_STARTS(int64_t)
RANKSVM_TAKE(float, int32_t)
RANKSVM_TAKE(float, int64_t)
RANKSVM_TAKE(double, int32_t)
RANKSVM_TAKE(double, int64_t)
#undef RANKSVM_STARTS
#undef RANKSVM_TAKE

}  // namespace ranksvm
