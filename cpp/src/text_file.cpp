#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "ranksvm/text.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#define RANKSVM_PREAD
#endif

namespace ranksvm {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 19;

// Calls body(i, begin, size) for pieces of so many bytes.
template <class Body>
void for_each_piece(std::size_t size, const Context& context, Body&& body) {
  context.parallel_for((size + kPieceBytes - 1) / kPieceBytes, [&](std::size_t i, const Context&) {
    const std::size_t begin = i * kPieceBytes;
    body(i, begin, std::min(kPieceBytes, size - begin));
  });
}

}  // namespace

bool can_read_at() {
#ifdef RANKSVM_PREAD
  return true;
#else
  return false;
#endif
}

int64_t read_at(int file, int64_t offset, char* text, std::size_t size, const Context& context) {
#ifdef RANKSVM_PREAD
  std::vector<std::size_t> counts((size + kPieceBytes - 1) / kPieceBytes, 0);
  std::atomic<int> error{0};
  for_each_piece(size, context, [&](std::size_t i, std::size_t begin, std::size_t length) {
    while (counts[i] < length) {
      const std::size_t at = begin + counts[i];
      const ssize_t got = pread(file, text + at, length - counts[i],
                                static_cast<off_t>(offset + static_cast<int64_t>(at)));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) error = errno;
      if (got <= 0) return;
      counts[i] += static_cast<std::size_t>(got);
    }
  });
  if (error != 0) return -int64_t{error};
  // Up to the first piece that is not full: behind it may be a gap, if the file grows meanwhile.
  std::size_t count = 0;
  for (const std::size_t one : counts) {
    count += one;
    if (one < kPieceBytes) break;
  }
  return static_cast<int64_t>(count);
#else
  static_cast<void>(file), static_cast<void>(offset), static_cast<void>(text);
  static_cast<void>(size), static_cast<void>(context);
  return -int64_t{ENOSYS};
#endif
}

int64_t find_nul(const char* text, std::size_t size, const Context& context) {
  std::atomic<std::size_t> first{size};
  for_each_piece(size, context, [&](std::size_t, std::size_t begin, std::size_t length) {
    if (begin > first.load(std::memory_order_relaxed)) return;
    const void* found = std::memchr(text + begin, 0, length);
    if (found == nullptr) return;
    const auto place = static_cast<std::size_t>(static_cast<const char*>(found) - text);
    std::size_t before = first.load();
    while (place < before && !first.compare_exchange_weak(before, place)) {
    }
  });
  return first == size ? -1 : static_cast<int64_t>(first);
}

}  // namespace ranksvm
