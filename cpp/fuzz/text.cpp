// What any bytes do to the reader of LETOR text, and to the writer.
//
// The first bytes choose the options, the rest is the text. It is read whole by one thread, in
// small blocks and pieces by several, as floats and as doubles: either all refuse it, at the same
// place, or all find the same items. What was found is written, and read back to the same bits.
//
// libFuzzer calls LLVMFuzzerTestOneInput; driver.cpp does so where there is no libFuzzer.
#include "ranksvm/text.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace ranksvm;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
struct Items {
  std::optional<TextError> error;  // its offset is that in the whole text
  std::vector<int64_t> start, column;
  std::vector<T> value;
  std::vector<double> y;
  std::vector<int64_t> qid;
  std::vector<uint32_t> qid_text;
  std::vector<char> comments;
  std::vector<int64_t> comment_ends;
  int64_t width = 0;
};

template <class T>
bool same_rows(const Items<T>& a, const Items<T>& b) {
  return same_bits(a.start, b.start) && same_bits(a.column, b.column) &&
         same_bits(a.value, b.value) && same_bits(a.y, b.y) && same_bits(a.qid, b.qid) &&
         same_bits(a.qid_text, b.qid_text) && same_bits(a.comments, b.comments) &&
         same_bits(a.comment_ends, b.comment_ends);
}

template <class T>
RowOutput make_room(const TextReader<T>& reader, Items<T>& items) {
  const auto rows = static_cast<std::size_t>(reader.rows());
  items.width = reader.width();
  items.y.resize(rows);
  RowOutput out;
  out.y = items.y.data();
  if (reader.has_qid() && reader.qid_chars() == 0) {
    items.qid.resize(rows);
    out.qid = items.qid.data();
  } else if (reader.has_qid()) {
    items.qid_text.resize(rows * static_cast<std::size_t>(reader.qid_chars()));
    out.qid_text = items.qid_text.data();
  }
  if (reader.has_comments()) {
    items.comments.resize(static_cast<std::size_t>(reader.comment_bytes()));
    items.comment_ends.resize(rows + 1);
    out.comments = items.comments.data();
    out.comment_ends = items.comment_ends.data();
  }
  return out;
}

// Reads text, which ends in LF, in blocks of at least so many bytes.
template <class T>
Items<T> read(const std::string& text, const TextOptions& options, std::size_t block,
              const Context& context) {
  TextReader<T> reader(options);
  Items<T> items;
  reader.next_file();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', std::min(begin + block, text.size()) - 1) + 1;
    // A copy of its own: what is read beyond its end is seen.
    const std::vector<char> part(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                 text.begin() + static_cast<std::ptrdiff_t>(end));
    if ((items.error = reader.feed(part.data(), part.size(), context))) {
      const auto size = static_cast<int64_t>(part.size());
      expect(items.error->offset >= 0 && items.error->length >= 0, "a place before the block");
      expect(items.error->offset + items.error->length <= size, "a place beyond the block");
      items.error->offset += static_cast<int64_t>(begin);
      return items;
    }
    begin = end;
  }
  const RowOutput out = make_room(reader, items);
  items.start.resize(static_cast<std::size_t>(reader.rows()) + 1);
  items.column.resize(static_cast<std::size_t>(reader.nonzeros()));
  items.value.resize(items.column.size());
  reader.take_sparse(items.start.data(), items.column.data(), items.value.data(), out, context);
  for (std::size_t r = 0; r + 1 < items.start.size(); ++r) {
    expect(items.start[r] <= items.start[r + 1], "rows that end before they begin");
    for (int64_t k = items.start[r]; k < items.start[r + 1]; ++k) {
      const int64_t column = items.column[static_cast<std::size_t>(k)];
      expect(column >= 0 && column < items.width, "a column beyond the width");
      expect(k == items.start[r] || items.column[static_cast<std::size_t>(k) - 1] < column,
             "columns that do not ascend");
    }
  }
  return items;
}

template <class T>
void check_dense(const std::string& text, const TextOptions& options, const Items<T>& items,
                 const Context& context) {
  const auto rows = items.y.size();
  const auto cols = static_cast<std::size_t>(items.width);
  if (rows * cols > (std::size_t{1} << 16)) return;
  TextReader<T> reader(options);
  reader.feed(text.data(), text.size(), context);
  Items<T> again;
  const RowOutput out = make_room(reader, again);
  std::vector<T> x(rows * cols, T{7});
  reader.take_dense(x.data(), items.width, out, context);
  expect(same_bits(items.y, again.y), "labels depend on the layout");
  for (std::size_t r = 0; r < rows; ++r) {
    for (int64_t k = items.start[r]; k < items.start[r + 1]; ++k) {
      const auto at = static_cast<std::size_t>(k);
      T& cell = x[r * cols + static_cast<std::size_t>(items.column[at])];
      expect(std::memcmp(&cell, &items.value[at], sizeof(T)) == 0, "a value depends on the layout");
      cell = T{0};
    }
  }
  expect(std::all_of(x.begin(), x.end(), [](T v) { return v == T{0}; }), "a value from nowhere");
}

template <class T>
void check_written(const Items<T>& items, const TextOptions& options, const Context& context) {
  if (!items.qid_text.empty()) return;  // the writer takes bytes, and here are code points
  const SparseText<T, int64_t> x{items.start.data(), items.column.data(), items.value.data(),
                                 false};
  RowText text;
  text.y = items.y.data();
  text.zero_based = options.zero_based;
  if (!items.qid.empty()) text.qid = items.qid.data();
  if (!items.comment_ends.empty()) {
    text.comments = items.comments.data();
    text.comment_ends = items.comment_ends.data();
  }
  const auto rows = static_cast<int64_t>(items.y.size());
  const std::string written = format_rows(x, text, rows, context);
  TextOptions again = options;
  again.missing = Missing::nan;
  Items<T> found = read<T>(written, again, written.size(), context);
  expect(!found.error, "what was written is refused");
  for (T& v : found.value) {
    if (std::isnan(v)) v = std::abs(v);  // the sign of NaN is not written
  }
  Items<T> wanted = items;
  for (T& v : wanted.value) {
    if (std::isnan(v)) v = std::abs(v);
  }
  expect(same_rows(wanted, found), "what was written reads back as something else");
}

template <class T>
void check(const std::string& text, const TextOptions& options, std::size_t block) {
  TextOptions whole = options;
  whole.piece_bytes = INT64_C(1) << 40;
  const Items<T> items = read<T>(text, whole, std::max<std::size_t>(1, text.size()), Context(1));
  const Items<T> cut = read<T>(text, options, block, Context(4));
  expect(items.error.has_value() == cut.error.has_value(), "an error depends on the cuts");
  if (items.error) {
    expect(items.error->fault == cut.error->fault, "the kind of an error depends on the cuts");
    expect(items.error->line == cut.error->line, "the line of an error depends on the cuts");
    expect(items.error->offset == cut.error->offset && items.error->length == cut.error->length,
           "the place of an error depends on the cuts");
    expect(fault_name(items.error->fault) != std::string("unknown"), "an error without a name");
    return;
  }
  expect(items.width == cut.width && same_rows(items, cut), "items depend on the cuts");
  check_dense(text, options, items, Context(3));
  if (!items.y.empty()) check_written(items, options, Context(2));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  TextOptions options;
  options.zero_based = data[0] & 1;
  options.comments = data[0] & 2;
  options.sort = data[0] & 4;
  options.missing = static_cast<Missing>((data[0] >> 3) % 3);
  options.duplicates = static_cast<Duplicates>((data[1] & 15) % 3);
  options.qid = static_cast<QidUse>((data[1] >> 4) % 3);
  options.n_features = data[2] < 200 ? -1 : data[2] - 200;
  options.piece_bytes = 1 + (data[3] & 31);
  const std::size_t block = 1 + 4 * (data[3] >> 5);
  std::string text(reinterpret_cast<const char*>(data) + 4, size - 4);
  if (!text.empty() && text.back() != '\n') text.push_back('\n');
  check<double>(text, options, block);
  check<float>(text, options, block);
  return 0;
}
