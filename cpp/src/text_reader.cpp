#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ranksvm/text.hpp"
#include "text_lines.hpp"
#include "text_parts.hpp"

namespace ranksvm {
namespace {

using text::Chunk;
using text::Pages;
using text::Part;
using text::Piece;
using text::PieceCounts;
using text::PieceError;

// The first chunks are smaller than the others: many files are small.
constexpr std::size_t kFirstChunkBytes = std::size_t{4} << 20;
constexpr std::size_t kFirstChunks = 4;
constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

// UTF-8 that was checked before to code points; the rest of the row becomes zero.
void to_code_points(const char* text, int64_t length, uint32_t* out, int64_t chars) {
  const char* const end = text + length;
  uint32_t* const out_end = out + chars;
  while (text != end) {
    const auto lead = static_cast<unsigned char>(*text++);
    uint32_t point = lead;
    int more = 0;
    if (lead >= 0x80) {
      more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
      point = lead & (0x3fU >> more);
    }
    for (; more > 0; --more) point = point << 6 | (static_cast<unsigned char>(*text++) & 0x3fU);
    *out++ = point;
  }
  std::fill(out, out_end, 0U);
}

template <class T>
void fill_rows(const Part<T>& part, const RowOutput& out, int64_t qid_chars) {
  std::copy_n(part.y, part.rows, out.y + part.first_row);
  if (out.qid != nullptr) std::copy_n(part.qid, part.rows, out.qid + part.first_row);
  if (out.qid_text != nullptr) {
    uint32_t* to = out.qid_text + part.first_row * qid_chars;
    const char* from = part.qid_text;
    for (int64_t r = 0; r < part.rows; ++r, to += qid_chars) {
      if (from != nullptr) {
        to_code_points(from, part.qid_size[r], to, qid_chars);
        from += part.qid_size[r];
      } else {
        char digits[24];
        const char* const end = std::to_chars(digits, digits + sizeof digits, part.qid[r]).ptr;
        to_code_points(digits, end - digits, to, qid_chars);
      }
    }
  }
  if (out.comments != nullptr) {
    int64_t end = part.first_comment_byte;
    for (int64_t r = 0; r < part.rows; ++r) {
      end += part.comment_size[r];
      out.comment_ends[part.first_row + r + 1] = end;
    }
    std::copy_n(part.comment, end - part.first_comment_byte,
                out.comments + part.first_comment_byte);
  }
}

}  // namespace

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::none:
      return "none";
    case Fault::not_text:
      return "not_text";
    case Fault::label:
      return "label";
    case Fault::label_range:
      return "label_range";
    case Fault::label_inexact:
      return "label_inexact";
    case Fault::qid_missing:
      return "qid_missing";
    case Fault::qid_unexpected:
      return "qid_unexpected";
    case Fault::qid_bad:
      return "qid_bad";
    case Fault::qid_late:
      return "qid_late";
    case Fault::extra:
      return "extra";
    case Fault::index:
      return "index";
    case Fault::index_zero:
      return "index_zero";
    case Fault::index_negative:
      return "index_negative";
    case Fault::index_large:
      return "index_large";
    case Fault::index_beyond:
      return "index_beyond";
    case Fault::value:
      return "value";
    case Fault::value_empty:
      return "value_empty";
    case Fault::value_missing:
      return "value_missing";
    case Fault::value_infinite:
      return "value_infinite";
    case Fault::value_range:
      return "value_range";
    case Fault::unsorted:
      return "unsorted";
    case Fault::duplicate:
      return "duplicate";
    case Fault::sum_range:
      return "sum_range";
  }
  return "unknown";
}

void LineWidths::add(const LineWidths& later) {
  if (later.last < 0) return;
  if (last >= 0) {
    least = std::min(least, last);
    most = std::max(most, last);
  }
  least = std::min(least, later.least);
  most = std::max(most, later.most);
  last = later.last;
}

template <class T>
struct TextReader<T>::State {
  TextOptions options;
  std::vector<std::unique_ptr<Piece<T>>> idle;  // their room is used again
  std::vector<Chunk<T>> chunks;
  std::mutex mutex;  // of these two
  int64_t lines = 0, file_rows = 0;
  LineWidths widths;
  int64_t rows = 0, width = 0, nonzeros = 0;
  bool has_qid = false, whole_numbers = true;
  int64_t qid_chars = 0, comment_bytes = 0;

  explicit State(const TextOptions& given) : options(given) {}

  std::unique_ptr<Piece<T>> idle_piece() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (idle.empty()) return std::make_unique<Piece<T>>();
    auto piece = std::move(idle.back());
    idle.pop_back();
    return piece;
  }

  // A part for a piece, with its memory.
  Part<T> make_part(const Piece<T>& piece) {
    Part<T> part;
    const std::size_t bytes = lay_out(piece, options, nullptr, part);
    const std::lock_guard<std::mutex> lock(mutex);
    if (chunks.empty() || chunks.back().memory.size() - chunks.back().used < bytes) {
      const std::size_t usual = chunks.size() < kFirstChunks ? kFirstChunkBytes : kChunkBytes;
      chunks.push_back({Pages(std::max(usual, bytes)), 0, {}});
    }
    Chunk<T>& chunk = chunks.back();
    part.chunk = chunks.size() - 1;
    lay_out(piece, options, chunk.memory.data() + chunk.used, part);
    chunk.used += bytes;
    return part;
  }

  PieceCounts read(const char* begin, const char* end, Part<T>& part, const Context& context) {
    auto piece = idle_piece();
    piece->read(begin, end, options, context);
    if (piece->error.fault == Fault::none) {
      part = make_part(*piece);
      keep(*piece, part);
    }
    const PieceCounts counts = *piece;
    const std::lock_guard<std::mutex> lock(mutex);
    idle.push_back(std::move(piece));
    return counts;
  }

  // The first error of the pieces, if there is one. What the first row of a piece has or lacks is
  // judged here, where the rows before it are known.
  std::optional<TextError> find_error(const char* block,
                                      const std::vector<PieceCounts>& pieces) const {
    int64_t line = lines + 1;
    bool any = rows > 0, ids = has_qid;
    for (const PieceCounts& piece : pieces) {
      const PieceError* error = &piece.error;
      if (piece.first_qid.begin != nullptr) {
        if (any && piece.has_qid != ids) error = &piece.first_qid;
        any = true;
        ids = piece.has_qid;
      }
      if (error->fault != Fault::none) {
        return TextError{error->fault, line + error->line, error->begin - block,
                         error->end - error->begin};
      }
      line += piece.lines;
    }
    return std::nullopt;
  }

  void add(const PieceCounts& piece, Part<T> part) {
    part.first_row = rows;
    part.first_nonzero = nonzeros;
    part.first_comment_byte = comment_bytes;
    chunks[part.chunk].parts.push_back(part);
    lines += piece.lines;
    file_rows += piece.rows;
    widths.add(piece.widths);
    has_qid = has_qid || piece.has_qid;
    rows += piece.rows;
    width = std::max(width, piece.width);
    nonzeros += piece.nonzeros;
    whole_numbers = whole_numbers && piece.whole_numbers;
    qid_chars = std::max(qid_chars, piece.qid_chars);
    comment_bytes += piece.comment_bytes;
  }

  template <class Fill>
  void take(const RowOutput& out, const Context& context, Fill fill) {
    idle.clear();
    if (out.comment_ends != nullptr) out.comment_ends[0] = 0;
    std::vector<std::pair<std::size_t, std::size_t>> tasks;  // chunk and part
    std::vector<std::atomic<std::size_t>> left(chunks.size());
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      left[c] = chunks[c].parts.size();
      for (std::size_t p = 0; p < chunks[c].parts.size(); ++p) tasks.emplace_back(c, p);
    }
    context.parallel_for(tasks.size(), [&](std::size_t i, const Context&) {
      Chunk<T>& chunk = chunks[tasks[i].first];
      const Part<T>& part = chunk.parts[tasks[i].second];
      fill(part);
      fill_rows(part, out, qid_chars);
      if (left[tasks[i].first].fetch_sub(1) == 1) chunk = Chunk<T>();  // the last one
    });
  }
};

template <class T>
TextReader<T>::TextReader(const TextOptions& options) : state_(std::make_unique<State>(options)) {}
template <class T>
TextReader<T>::TextReader(TextReader&&) noexcept = default;
template <class T>
TextReader<T>::~TextReader() = default;

template <class T>
std::optional<TextError> TextReader<T>::feed(const char* text, std::size_t size,
                                             const Context& context) {
  if (size == 0) return std::nullopt;
  if (text[size - 1] != '\n') throw std::invalid_argument("the text does not end with a line");
  const char* const end = text + size;
  std::vector<const char*> cuts{text};
  while (cuts.back() != end) {
    const char* next =
        cuts.back() + std::clamp<int64_t>(state_->options.piece_bytes, 1, end - cuts.back()) - 1;
    cuts.push_back(static_cast<const char*>(std::memchr(next, '\n', end - next)) + 1);
  }
  std::vector<PieceCounts> pieces(cuts.size() - 1);
  std::vector<Part<T>> parts(pieces.size());
  context.parallel_for(pieces.size(), [&](std::size_t i, const Context& inner) {
    pieces[i] = state_->read(cuts[i], cuts[i + 1], parts[i], inner);
  });
  if (const auto error = state_->find_error(text, pieces)) return error;
  for (std::size_t i = 0; i < pieces.size(); ++i) state_->add(pieces[i], parts[i]);
  return std::nullopt;
}

template <class T>
void TextReader<T>::next_file() {
  state_->lines = state_->file_rows = 0;
  state_->widths = {};
}

template <class T>
int64_t TextReader<T>::lines() const {
  return state_->lines;
}
template <class T>
int64_t TextReader<T>::file_rows() const {
  return state_->file_rows;
}
template <class T>
LineWidths TextReader<T>::widths() const {
  return state_->widths;
}
template <class T>
int64_t TextReader<T>::rows() const {
  return state_->rows;
}
template <class T>
int64_t TextReader<T>::width() const {
  return state_->width;
}
template <class T>
int64_t TextReader<T>::nonzeros() const {
  return state_->nonzeros;
}
template <class T>
bool TextReader<T>::has_qid() const {
  return state_->has_qid;
}
template <class T>
int64_t TextReader<T>::qid_chars() const {
  return state_->whole_numbers ? 0 : state_->qid_chars;
}
template <class T>
bool TextReader<T>::has_comments() const {
  return state_->comment_bytes > 0;
}
template <class T>
int64_t TextReader<T>::comment_bytes() const {
  return state_->comment_bytes;
}

template <class T>
void TextReader<T>::take_dense(T* x, int64_t cols, const RowOutput& out, const Context& context) {
  if (cols < width()) throw std::invalid_argument("too few columns");
  state_->take(out, context, [x, cols](const Part<T>& part) {
    T* row = x + part.first_row * cols;
    T* next = row;
    walk(
        part,
        [&](int64_t, int64_t column, T value) {
          std::fill(next, row + column, T{0});
          row[column] = value;
          next = row + column + 1;
        },
        [&](int64_t) {
          row += cols;
          std::fill(next, row, T{0});
          next = row;
        });
  });
  state_ = std::make_unique<State>(TextOptions(state_->options));
}

template <class T>
template <class I>
void TextReader<T>::take_sparse(I* start, I* column, T* value, const RowOutput& out,
                                const Context& context) {
  start[0] = 0;
  state_->take(out, context, [=](const Part<T>& part) {
    int64_t next = part.first_nonzero;
    walk(
        part,
        [&](int64_t, int64_t at, T stored) {
          if (stored == T{0}) return;
          column[next] = static_cast<I>(at);
          value[next++] = stored;
        },
        [&](int64_t r) { start[part.first_row + r + 1] = static_cast<I>(next); });
  });
  state_ = std::make_unique<State>(TextOptions(state_->options));
}

template class TextReader<float>;
template class TextReader<double>;
template void TextReader<float>::take_sparse(int32_t*, int32_t*, float*, const RowOutput&,
                                             const Context&);
template void TextReader<float>::take_sparse(int64_t*, int64_t*, float*, const RowOutput&,
                                             const Context&);
template void TextReader<double>::take_sparse(int32_t*, int32_t*, double*, const RowOutput&,
                                              const Context&);
template void TextReader<double>::take_sparse(int64_t*, int64_t*, double*, const RowOutput&,
                                              const Context&);

}  // namespace ranksvm
