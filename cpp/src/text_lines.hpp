// One piece of text: whole lines, read by one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ranksvm/text.hpp"

namespace ranksvm::text {

// Room for what is found, not initialised. It is made for a whole line at a time, so that nothing
// has to look for its end while the line is read.
template <class T>
class Room {
 public:
  // Keeps the first `used` elements and makes room for `more` after them.
  void reserve(int64_t used, int64_t more) {
    if (used + more <= size_) return;
    const int64_t size = std::max(used + more, 2 * size_);
    std::unique_ptr<T[]> data(new T[static_cast<std::size_t>(size)]);
    std::copy_n(data_.get(), used, data.get());
    data_ = std::move(data);
    size_ = size;
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }

 private:
  std::unique_ptr<T[]> data_;
  int64_t size_ = 0;
};

struct Span {
  const char* begin;
  int64_t length;
};

// A fault; the line is counted from the start of the piece, from 0.
struct PieceError {
  Fault fault = Fault::none;
  int64_t line = 0;
  const char* begin = nullptr;
  const char* end = nullptr;
};

// Counts of what a piece holds.
struct PieceCounts {
  int64_t lines = 0, rows = 0;
  int64_t width = 0;     // 1 + largest column number
  int64_t entries = 0;   // that are stored: all but +0
  int64_t nonzeros = 0;  // entries without -0
  int64_t column_bytes = 0, comment_bytes = 0;
  LineWidths widths;
  // Ids, if the rows have them. A piece does not know what the lines before it have, so what is
  // wrong with its first row is for others to judge, who find the place in `first_qid`.
  bool has_qid = false;
  PieceError first_qid;
  bool whole_numbers = true;  // all ids read back from int64 as they are written
  int64_t qid_bytes = 0, qid_chars = 0;
  PieceError error;
};

template <class T>
struct Piece : PieceCounts {
  // Forgets what was there before; the room is used again.
  void read(const char* begin, const char* end, const TextOptions& options, const Context& context);

  Room<double> y;
  Room<T> value;
  Room<uint32_t> size;   // entries of a row
  Room<uint8_t> column;  // gaps between the column numbers of a row, 7 bits a byte, low ones first
  Room<int64_t> qid;
  Room<Span> qid_span;
  Room<char> comment;
  Room<int64_t> comment_size;  // 0: no comment; else with its '#'

 private:
  struct Feature {
    int64_t column;
    T value;
  };
  struct Listed {
    int64_t column;
    int64_t number;  // in the order of the line
    double value;
    const char* token;
  };
  void make_room(int64_t line_length, const TextOptions& options);
  bool read_line(const char*& p, const TextOptions& options);
  bool read_qid(const char*& p, const TextOptions& options);
  bool read_feature(const char*& p, const TextOptions& options, Feature& feature);
  bool read_value(const char*& p, const TextOptions& options, T& value);
  bool read_features(const char*& p, const TextOptions& options);
  bool read_unsorted(const char*& p, const TextOptions& options);
  void store(int64_t column, int64_t& last, T value);
  PieceError error_at(Fault fault, const char* token) const;
  bool fail(Fault fault, const char* token);

  std::vector<Listed> listed_;  // of a row that is not in order
};

extern template struct Piece<float>;
extern template struct Piece<double>;

}  // namespace ranksvm::text
