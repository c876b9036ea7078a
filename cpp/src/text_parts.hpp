// What was read from the pieces of a text, until the arrays can be filled from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "text_lines.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#ifdef MAP_ANONYMOUS
#define RANKSVM_MMAP
#endif
#endif

namespace ranksvm::text {

constexpr std::size_t kHugeFrom = std::size_t{16} << 20;

// Memory that goes back to the system as soon as it is not needed any more, where that is possible;
// the C library would keep some of it.
class Pages {
 public:
  Pages() = default;
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
#ifdef RANKSVM_MMAP
    void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found != MAP_FAILED) data_ = static_cast<char*>(found);
#ifdef MADV_HUGEPAGE
    // Far fewer pages to be prepared and taken back. A hint: failure is harmless.
    if (data_ != nullptr && bytes >= kHugeFrom) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
#else
    data_ = static_cast<char*>(std::malloc(bytes));
#endif
    if (data_ == nullptr) throw std::bad_alloc();
  }
  Pages(Pages&& other) noexcept { swap(other); }
  Pages& operator=(Pages&& other) noexcept {
    Pages(std::move(other)).swap(*this);
    return *this;
  }
  ~Pages() {
#ifdef RANKSVM_MMAP
    if (data_ != nullptr) munmap(data_, bytes_);
#else
    std::free(data_);
#endif
  }
  void swap(Pages& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  char* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// What was read from one piece, without the rest of its room.
template <class T>
struct Part {
  std::size_t chunk = 0;
  int64_t rows = 0;
  int64_t first_row = 0, first_nonzero = 0, first_comment_byte = 0;
  double* y = nullptr;
  T* value = nullptr;
  uint32_t* size = nullptr;
  uint8_t* column = nullptr;
  int64_t* qid = nullptr;
  int64_t* qid_size = nullptr;
  char* qid_text = nullptr;  // null: the ids are whole numbers
  int64_t* comment_size = nullptr;
  char* comment = nullptr;
};

template <class T>
struct Chunk {
  Pages memory;
  std::size_t used = 0;
  std::vector<Part<T>> parts;
};

// Sets out the arrays of a part one after the other; without memory it only counts the bytes.
class Layout {
 public:
  explicit Layout(char* memory) : memory_(memory) {}

  template <class U>
  U* place(int64_t n) {
    U* array = memory_ == nullptr ? nullptr : reinterpret_cast<U*>(memory_ + bytes_);
    bytes_ += (static_cast<std::size_t>(n) * sizeof(U) + 7) / 8 * 8;
    return array;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  std::size_t bytes_ = 0;
};

template <class T>
std::size_t lay_out(const Piece<T>& piece, const TextOptions& options, char* memory,
                    Part<T>& part) {
  Layout layout(memory);
  part.rows = piece.rows;
  part.y = layout.place<double>(piece.rows);
  part.value = layout.place<T>(piece.entries);
  part.size = layout.place<uint32_t>(piece.rows);
  part.column = layout.place<uint8_t>(piece.column_bytes);
  if (piece.has_qid && piece.whole_numbers) {
    part.qid = layout.place<int64_t>(piece.rows);
  } else if (piece.has_qid) {
    part.qid_size = layout.place<int64_t>(piece.rows);
    part.qid_text = layout.place<char>(piece.qid_bytes);
  }
  if (options.comments) {
    part.comment_size = layout.place<int64_t>(piece.rows);
    part.comment = layout.place<char>(piece.comment_bytes);
  }
  return layout.bytes();
}

template <class U>
void copy(const Room<U>& from, int64_t n, U* to) {
  if (to != nullptr && n > 0) std::memcpy(to, from.data(), static_cast<std::size_t>(n) * sizeof(U));
}

template <class T>
void keep(const Piece<T>& piece, const Part<T>& part) {
  copy(piece.y, piece.rows, part.y);
  copy(piece.value, piece.entries, part.value);
  copy(piece.size, piece.rows, part.size);
  copy(piece.column, piece.column_bytes, part.column);
  copy(piece.qid, piece.rows, part.qid);
  if (part.qid_text != nullptr) {
    char* out = part.qid_text;
    for (int64_t r = 0; r < piece.rows; ++r) {
      const Span& span = piece.qid_span[r];
      std::memcpy(out, span.begin, static_cast<std::size_t>(span.length));
      out += span.length;
      part.qid_size[r] = span.length;
    }
  }
  copy(piece.comment_size, piece.rows, part.comment_size);
  copy(piece.comment, piece.comment_bytes, part.comment);
}

// Calls entry(r, column, value) for all entries, and row_end(r) after each row.
template <class T, class Entry, class RowEnd>
void walk(const Part<T>& part, Entry entry, RowEnd row_end) {
  const T* value = part.value;
  const uint8_t* byte = part.column;
  for (int64_t r = 0; r < part.rows; ++r) {
    int64_t column = -1;
    for (uint32_t left = part.size[r]; left > 0; --left) {
      uint64_t gap = 0;
      int shift = 0;
      for (; *byte >= 0x80; shift += 7) gap |= static_cast<uint64_t>(*byte++ & 0x7f) << shift;
      gap |= static_cast<uint64_t>(*byte++) << shift;
      column += static_cast<int64_t>(gap) + 1;
      entry(r, column, *value++);
    }
    row_end(r);
  }
}

}  // namespace ranksvm::text
