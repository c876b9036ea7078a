#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "ranksvm/text.hpp"
#include "text_number.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kPieceEntries = 1 << 14;
constexpr std::size_t kLongestNumber = 32;

// Text that grows by one token at a time.
class Line {
 public:
  explicit Line(std::string& text) : text_(text) {}

  void add(char c) { text_.push_back(c); }
  void add(const char* begin, int64_t length) {
    text_.append(begin, static_cast<std::size_t>(length));
  }
  void add(const std::string& word) { text_.append(word); }
  void add(int64_t number) {
    char digits[kLongestNumber];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
  }
  template <class T>
  void add_real(T number) {
    char digits[kLongestNumber];
    text_.append(digits, text::write_number(digits, number));
  }
  template <class T>
  void add_feature(int64_t index, T value, const std::string& missing) {
    add(' ');
    add(index);
    add(':');
    if (std::isnan(value)) {
      add(missing);
    } else {
      add_real(value);
    }
  }

 private:
  std::string& text_;
};

template <class T>
int64_t entries_before(const DenseText<T>& x, int64_t row) {
  return row * x.cols;
}
template <class T, class I>
int64_t entries_before(const SparseText<T, I>& x, int64_t row) {
  return static_cast<int64_t>(x.start[row] - x.start[0]);
}

// -0 is written whatever `zeros` says: leaving it out would change it.
template <class T>
bool left_out(T value, bool zeros) {
  return value == T{0} && !zeros && !std::signbit(value);
}

template <class T>
void add_features(Line& line, const DenseText<T>& x, int64_t row, const RowText& text) {
  const T* const values = x.data + row * x.cols;
  for (int64_t c = 0; c < x.cols; ++c) {
    if (left_out(values[c], x.zeros)) continue;
    line.add_feature(c + !text.zero_based, values[c], text.missing);
  }
}
template <class T, class I>
void add_features(Line& line, const SparseText<T, I>& x, int64_t row, const RowText& text) {
  for (I k = x.start[row]; k < x.start[row + 1]; ++k) {
    if (x.value[k] == T{0} && !x.zeros) continue;
    line.add_feature(int64_t{x.column[k]} + !text.zero_based, x.value[k], text.missing);
  }
}

}  // namespace

template <class Matrix>
std::vector<std::string> format_pieces(const Matrix& x, const RowText& text, int64_t rows,
                                       const Context& context) {
  std::vector<int64_t> cuts{0};
  for (int64_t r = 1; r < rows; ++r) {
    // A row counts like some entries more than it has.
    const int64_t work = entries_before(x, r) - entries_before(x, cuts.back());
    if (work + 4 * (r - cuts.back()) >= kPieceEntries) cuts.push_back(r);
  }
  cuts.push_back(rows);
  std::vector<std::string> parts(cuts.size() - 1);
  context.parallel_for(parts.size(), [&](std::size_t i, const Context& inner) {
    Line line(parts[i]);
    for (int64_t r = cuts[i]; r < cuts[i + 1]; ++r) {
      if (r % 64 == 0) inner.check_interrupt();
      line.add_real(text.y[r]);
      if (text.qid != nullptr || text.qid_text != nullptr) line.add(" qid:", 5);
      if (text.qid != nullptr) line.add(text.qid[r]);
      if (text.qid_text != nullptr) {
        line.add(text.qid_text + text.qid_ends[r], text.qid_ends[r + 1] - text.qid_ends[r]);
      }
      add_features(line, x, r, text);
      if (text.comments != nullptr && text.comment_ends[r] < text.comment_ends[r + 1]) {
        line.add(' ');
        line.add(text.comments + text.comment_ends[r],
                 text.comment_ends[r + 1] - text.comment_ends[r]);
      }
      line.add('\n');
    }
  });
  return parts;
}

void join(std::vector<std::string>& parts, char* out, const Context& context) {
  std::vector<std::size_t> begin(parts.size() + 1, 0);
  for (std::size_t i = 0; i < parts.size(); ++i) begin[i + 1] = begin[i] + parts[i].size();
  context.parallel_for(parts.size(), [&](std::size_t i, const Context&) {
    std::copy(parts[i].begin(), parts[i].end(), out + begin[i]);
    parts[i] = {};
  });
}

template <class Matrix>
std::string format_rows(const Matrix& x, const RowText& text, int64_t rows,
                        const Context& context) {
  std::vector<std::string> parts = format_pieces(x, text, rows, context);
  std::size_t bytes = 0;
  for (const std::string& part : parts) bytes += part.size();
  std::string all(bytes, '\0');
  join(parts, all.data(), context);
  return all;
}

#define RANKSVM_FORMAT(Matrix)                                                            \
  template std::vector<std::string> format_pieces(const Matrix&, const RowText&, int64_t, \
                                                  const Context&);                        \
  template std::string format_rows(const Matrix&, const RowText&, int64_t, const Context&);
using SparseFloat32 = SparseText<float, int32_t>;
using SparseFloat64 = SparseText<float, int64_t>;
using SparseDouble32 = SparseText<double, int32_t>;
using SparseDouble64 = SparseText<double, int64_t>;
RANKSVM_FORMAT(DenseText<float>)
RANKSVM_FORMAT(DenseText<double>)
RANKSVM_FORMAT(SparseFloat32)
RANKSVM_FORMAT(SparseFloat64)
RANKSVM_FORMAT(SparseDouble32)
RANKSVM_FORMAT(SparseDouble64)
#undef RANKSVM_FORMAT

}  // namespace ranksvm
