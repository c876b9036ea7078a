// LETOR / SVMlight text to rows and back.
//
//     line    = [ label [ "qid:" id ] { index ":" value } ] [ "#" comment ]
//     label   = number
//     value   = number | "NULL" | "NaN" | "NA"       the words in any case; NaN may have a sign
//     number  = [ "+" | "-" ] digits [ "." digits ] [ "e" [ sign ] digits ]      also "1." and ".5"
//
// Tokens are separated by spaces and tabs, lines end in LF or CR LF. A line without a label holds
// no item. Numbers are rounded once, to the nearest number of the type that they are kept in.
//
// A reader is fed with blocks of whole lines. It cuts a block into pieces, which threads take one
// by one, and keeps what they found in compressed form: 1 byte for most column numbers instead
// of 4. When the text is over, and the size of everything known, the arrays are filled from these
// parts by all threads, and the memory of some parts is given back as soon as they have been
// copied.
//
// Where the cuts are depends on the text alone, and nothing that is returned depends on the cuts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ranksvm/parallel.hpp"

namespace ranksvm {

enum class Missing { error, nan, zero };
enum class Duplicates { error, last, sum };
enum class QidUse { automatic, required, ignored };  // automatic: all lines have one, or none has

struct TextOptions {
  bool zero_based = false;
  int64_t n_features = -1;  // -1: as many as there are
  Missing missing = Missing::error;
  bool sort = true;  // else an index below the one before it is a fault
  Duplicates duplicates = Duplicates::error;
  QidUse qid = QidUse::automatic;
  bool comments = true;
  int64_t piece_bytes = 1 << 18;  // of text that one thread reads at a time, about
};

// What can be wrong with a token.
enum class Fault {
  none,
  not_text,
  label,
  label_range,
  label_inexact,
  qid_missing,
  qid_unexpected,
  qid_bad,
  qid_late,
  extra,
  index,
  index_zero,
  index_negative,
  index_large,
  index_beyond,
  value,
  value_empty,
  value_missing,
  value_infinite,
  value_range,
  unsorted,
  duplicate,
  sum_range,
};
const char* fault_name(Fault fault);

struct TextError {
  Fault fault;
  int64_t line;            // of the file, from 1
  int64_t offset, length;  // of the token, in the block
};

// How many features the lines of a file name.
struct LineWidths {
  int64_t least = INT64_MAX, most = -1;  // of all items but the last
  int64_t last = -1;                     // of the last one; -1: there is none

  void add(const LineWidths& later);
};

// Where to put what belongs to the rows; null pointers leave something out.
struct RowOutput {
  double* y = nullptr;              // [rows]
  int64_t* qid = nullptr;           // [rows], if all ids are whole numbers
  uint32_t* qid_text = nullptr;     // [rows][qid_chars], else: code points, padded with zeros
  char* comments = nullptr;         // [comment_bytes]
  int64_t* comment_ends = nullptr;  // [rows + 1], the first of them 0
};

template <class T>
class TextReader {
 public:
  explicit TextReader(const TextOptions& options);
  TextReader(TextReader&&) noexcept;
  ~TextReader();

  // The next lines of the file. Not empty text has to end in LF. On an error nothing of the block
  // is kept, and the error is the first of the block.
  std::optional<TextError> feed(const char* text, std::size_t size, const Context& context);
  // The lines that follow are those of another file.
  void next_file();

  int64_t lines() const;      // of this file
  int64_t file_rows() const;  // of this file
  LineWidths widths() const;  // of this file
  int64_t rows() const;       // of all files, as everything below
  int64_t width() const;      // 1 + the largest column number that was named
  int64_t nonzeros() const;   // entries that are not zero; NaN is not
  bool has_qid() const;
  int64_t qid_chars() const;  // longest id if not all are whole numbers, else 0
  bool has_comments() const;
  int64_t comment_bytes() const;  // a '#' before every comment included; no comment, no bytes

  // Fill the arrays; the reader is empty then. A column number of the arrays is below `cols`, which
  // is at least width(). start has rows() + 1 elements, column and value have nonzeros().
  void take_dense(T* x, int64_t cols, const RowOutput& out, const Context& context);
  template <class I>
  void take_sparse(I* start, I* column, T* value, const RowOutput& out, const Context& context);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// --- Files ---------------------------------------------------------------------------------------

// Whether this system can read from any place of a file.
bool can_read_at();

// Reads up to `size` bytes from a place of a regular file, with all threads; returns how many, less
// at the end of the file alone. A negative number is that of an error.
int64_t read_at(int file, int64_t offset, char* text, std::size_t size, const Context& context);

// The first place of a byte that is 0; -1 if there is none.
int64_t find_nul(const char* text, std::size_t size, const Context& context);

// --- Writing -------------------------------------------------------------------------------------

template <class T>
struct DenseText {
  const T* data;  // in C order
  int64_t cols;
  bool zeros;  // whether to write them
};

template <class T, class I>
struct SparseText {
  const I* start;
  const I* column;
  const T* value;
  bool zeros;  // whether to write those that are stored
};

// What goes around the features of row r. Texts: bytes [ends[r], ends[r + 1]).
struct RowText {
  const double* y;
  const int64_t* qid = nullptr;  // one of the two, or none
  const char* qid_text = nullptr;
  const int64_t* qid_ends = nullptr;
  const char* comments = nullptr;  // '#' included
  const int64_t* comment_ends = nullptr;
  bool zero_based = false;
  std::string missing = "nan";  // what is written for NaN
};

// The text of `rows` rows, in pieces. Every number is as short as it can be and still be read back
// exactly.
template <class Matrix>
std::vector<std::string> format_pieces(const Matrix& x, const RowText& text, int64_t rows,
                                       const Context& context);
// The pieces one after the other; they are empty then.
void join(std::vector<std::string>& pieces, char* out, const Context& context);
// The same in one.
template <class Matrix>
std::string format_rows(const Matrix& x, const RowText& text, int64_t rows, const Context& context);

}  // namespace ranksvm
