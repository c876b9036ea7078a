#include "text_lines.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "text_number.hpp"

namespace ranksvm::text {
namespace {

// Column numbers, and so the number of columns, fit into 32 bits with a sign.
constexpr int64_t kMostColumns = INT64_C(0x7fffffff);
constexpr int64_t kLongestId = 1024;
// Doubles hold every integer up to here.
constexpr double kLargestExact = 9007199254740992.0;

// Every piece ends in LF, so nothing below has to compare with its end.
inline bool is_line_end(const char* p) { return *p == '\n' || (*p == '\r' && p[1] == '\n'); }
inline bool is_blank(char c) { return c == ' ' || c == '\t'; }
inline bool is_token_end(const char* p) { return is_blank(*p) || *p == '#' || is_line_end(p); }

inline void skip_blanks(const char*& p) {
  while (is_blank(*p)) ++p;
}

const char* token_end(const char* p) {
  while (!is_token_end(p)) ++p;
  return p;
}

inline bool starts_with(const char* p, const char* word) {
  for (; *word != '\0'; ++p, ++word) {
    if (*p != *word) return false;
  }
  return true;
}

// Whether the token is this word of lower-case letters, written in any case.
bool is_word(const char* p, const char* word) {
  for (; *word != '\0'; ++p, ++word) {
    const char lower = *p >= 'A' && *p <= 'Z' ? static_cast<char>(*p + 32) : *p;
    if (lower != *word) return false;
  }
  return is_token_end(p);
}

// Whether a number is the one that was written, if that is a whole number: labels are compared, and
// different ones must not become equal. Fractions and powers of ten are rounded as usual.
bool holds_integer(const char* first, const char* last, double value) {
  first += *first == '-' || *first == '+';
  if (!std::all_of(first, last, is_digit)) return true;
  while (*first == '0') ++first;
  char exact[320];
  const int length = std::snprintf(exact, sizeof exact, "%.0f", std::abs(value));
  return length == last - first && std::memcmp(exact, first, last - first) == 0;
}

// Characters of UTF-8 text; -1 if it is not UTF-8 or has a control character in it.
int64_t count_characters(const char* p, const char* end) {
  int64_t count = 0;
  while (p != end) {
    const auto lead = static_cast<unsigned char>(*p++);
    if (lead < 0x20 || lead == 0x7f) return -1;
    int more = 0;
    unsigned char least = 0x80, most = 0xbf;  // of the second byte
    if (lead >= 0x80) {
      if (lead < 0xc2 || lead > 0xf4) return -1;
      more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
      if (lead == 0xe0) least = 0xa0;
      if (lead == 0xed) most = 0x9f;
      if (lead == 0xf0) least = 0x90;
      if (lead == 0xf4) most = 0x8f;
    }
    for (; more > 0; --more, ++p) {
      if (p == end) return -1;
      const auto next = static_cast<unsigned char>(*p);
      if (next < least || next > most) return -1;
      least = 0x80;
      most = 0xbf;
    }
    ++count;
  }
  return count;
}

// Whether an id is just as an int64 would be written, which `value` then is.
bool is_whole_number(const char* begin, const char* end, int64_t& value) {
  const char* digits = begin + (*begin == '-');
  if (digits == end || (*digits == '0' && end - begin != 1)) return false;  // also not "-0"
  const auto [stop, fault] = std::from_chars(begin, end, value);
  return fault == std::errc() && stop == end;
}

}  // namespace

template <class T>
void Piece<T>::read(const char* begin, const char* end, const TextOptions& options,
                    const Context& context) {
  static_cast<PieceCounts&>(*this) = {};
  for (const char* p = begin; p != end; ++lines) {
    if (lines % 256 == 0) context.check_interrupt();
    const auto* const line_end =
        static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
    make_room(line_end - p, options);
    const int64_t row = rows;
    if (!read_line(p, options)) return;
    const char* const text_end = line_end - (line_end != p && line_end[-1] == '\r');
    const auto length = static_cast<std::size_t>(text_end - p);  // of the comment
    if (const void* nul = std::memchr(p, '\0', length); nul != nullptr) {
      fail(Fault::not_text, static_cast<const char*>(nul));
      return;
    }
    if (rows > row && options.comments) {
      std::memcpy(comment.data() + comment_bytes, p, length);
      comment_size[row] = text_end - p;
      comment_bytes += text_end - p;
    }
    p = line_end + 1;
  }
}

template <class T>
void Piece<T>::make_room(int64_t line_length, const TextOptions& options) {
  y.reserve(rows, 1);
  size.reserve(rows, 1);
  // The shortest entry is " 1:0", and a gap takes no more bytes than the digits of the index.
  value.reserve(entries, line_length / 4);
  column.reserve(column_bytes, line_length);
  if (options.qid != QidUse::ignored) {
    qid.reserve(rows, 1);
    qid_span.reserve(rows, 1);
  }
  if (options.comments) {
    comment.reserve(comment_bytes, line_length);
    comment_size.reserve(rows, 1);
  }
}

// Up to the comment or the end of the line.
template <class T>
bool Piece<T>::read_line(const char*& p, const TextOptions& options) {
  skip_blanks(p);
  if (*p == '#' || is_line_end(p)) return true;
  const char* const label = p;
  const Number outcome = read_number(p, y[rows]);
  if (outcome == Number::overflow) return fail(Fault::label_range, label);
  if (outcome == Number::malformed || !is_token_end(p)) return fail(Fault::label, label);
  if (std::abs(y[rows]) >= kLargestExact && !holds_integer(label, p, y[rows])) {
    return fail(Fault::label_inexact, label);
  }
  skip_blanks(p);
  if (!read_qid(p, options) || !read_features(p, options)) return false;
  ++rows;
  return true;
}

template <class T>
bool Piece<T>::read_qid(const char*& p, const TextOptions& options) {
  const bool there = starts_with(p, "qid:");
  if (options.qid == QidUse::ignored) {
    const char* const end = there ? token_end(p) : p;
    if (std::find(p, end, '\0') != end) return fail(Fault::not_text, p);
    p = end;
    return true;
  }
  const Fault against = there ? Fault::qid_unexpected : Fault::qid_missing;
  if (rows == 0) {
    has_qid = there;
    first_qid = error_at(against, p);
  } else if (there != has_qid) {
    return fail(against, p);
  }
  if (!there) return options.qid == QidUse::required ? fail(against, p) : true;

  const char* const begin = p + 4;
  const char* const end = token_end(begin);
  const int64_t length = end - begin;
  if (rows > 0 && qid_span[rows - 1].length == length &&
      std::memcmp(qid_span[rows - 1].begin, begin, static_cast<std::size_t>(length)) == 0) {
    qid[rows] = qid[rows - 1];
  } else {
    if (length == 0 || length > kLongestId) return fail(Fault::qid_bad, p);
    if (std::memchr(begin, ':', static_cast<std::size_t>(length)) != nullptr) {
      return fail(Fault::qid_bad, p);
    }
    const int64_t characters = count_characters(begin, end);
    if (characters < 0) return fail(Fault::qid_bad, p);
    qid_chars = std::max(qid_chars, characters);
    qid[rows] = 0;
    whole_numbers = whole_numbers && is_whole_number(begin, end, qid[rows]);
  }
  qid_span[rows] = {begin, length};
  qid_bytes += length;
  p = end;
  return true;
}

template <class T>
bool Piece<T>::read_features(const char*& p, const TextOptions& options) {
  const char* const start = p;
  T* next_value = value.data() + entries;
  uint8_t* next_column = column.data() + column_bytes;
  int64_t last = -1, last_stored = -1, named = 0, negative_zeros = 0;
  for (;;) {
    skip_blanks(p);
    if (*p == '#' || is_line_end(p)) break;
    Feature feature;
    if (!read_feature(p, options, feature)) return false;
    if (feature.column <= last) {
      p = start;
      return read_unsorted(p, options);
    }
    last = feature.column;
    ++named;
    if (feature.value == T{0}) {
      if (!std::signbit(feature.value)) continue;
      ++negative_zeros;
    }
    auto gap = static_cast<uint64_t>(feature.column - last_stored - 1);
    for (; gap >= 0x80; gap >>= 7) *next_column++ = static_cast<uint8_t>(gap | 0x80);
    *next_column++ = static_cast<uint8_t>(gap);
    *next_value++ = feature.value;
    last_stored = feature.column;
  }
  const int64_t stored = next_value - (value.data() + entries);
  size[rows] = static_cast<uint32_t>(stored);
  entries += stored;
  nonzeros += stored - negative_zeros;
  column_bytes = next_column - column.data();
  width = std::max(width, last + 1);
  widths.add({INT64_MAX, -1, named});
  return true;
}

// A row whose indices do not ascend, from its first feature on.
template <class T>
bool Piece<T>::read_unsorted(const char*& p, const TextOptions& options) {
  listed_.clear();
  int64_t last = -1, named = 0;
  for (;; ++named) {
    skip_blanks(p);
    if (*p == '#' || is_line_end(p)) break;
    const char* const token = p;
    Feature feature;
    if (!read_feature(p, options, feature)) return false;
    if (feature.column < last && !options.sort) return fail(Fault::unsorted, token);
    last = feature.column;
    listed_.push_back({feature.column, named, feature.value, token});
  }
  std::sort(listed_.begin(), listed_.end(), [](const Listed& a, const Listed& b) {
    return a.column != b.column ? a.column < b.column : a.number < b.number;
  });
  if (options.duplicates == Duplicates::error) {
    const Listed* first = nullptr;
    for (std::size_t i = 1; i < listed_.size(); ++i) {
      if (listed_[i].column != listed_[i - 1].column) continue;
      if (first == nullptr || listed_[i].number < first->number) first = &listed_[i];
    }
    if (first != nullptr) return fail(Fault::duplicate, first->token);
  }
  const int64_t before = entries;
  int64_t last_stored = -1;
  for (std::size_t i = 0; i < listed_.size();) {
    const int64_t index = listed_[i].column;
    double merged = listed_[i].value;
    for (++i; i < listed_.size() && listed_[i].column == index; ++i) {
      merged = options.duplicates == Duplicates::sum ? merged + listed_[i].value : listed_[i].value;
    }
    if (std::isinf(static_cast<T>(merged))) return fail(Fault::sum_range, listed_[i - 1].token);
    store(index, last_stored, static_cast<T>(merged));
  }
  size[rows] = static_cast<uint32_t>(entries - before);
  width = std::max(width, listed_.back().column + 1);
  widths.add({INT64_MAX, -1, named});
  return true;
}

template <class T>
void Piece<T>::store(int64_t index, int64_t& last, T stored) {
  if (stored == T{0} && !std::signbit(stored)) return;
  auto gap = static_cast<uint64_t>(index - last - 1);
  for (; gap >= 0x80; gap >>= 7) column[column_bytes++] = static_cast<uint8_t>(gap | 0x80);
  column[column_bytes++] = static_cast<uint8_t>(gap);
  value[entries++] = stored;
  nonzeros += stored != T{0};
  last = index;
}

template <class T>
inline bool Piece<T>::read_feature(const char*& p, const TextOptions& options, Feature& feature) {
  const char* const token = p;
  int64_t index = 0;
  for (; is_digit(*p); ++p) {
    if (index <= kMostColumns) index = 10 * index + (*p - '0');
  }
  if (p == token || *p != ':') {
    if (*token == '-' && is_digit(token[1])) return fail(Fault::index_negative, token);
    if (starts_with(token, "qid:")) return fail(Fault::qid_late, token);
    const bool extra = starts_with(token, "cost:") || starts_with(token, "sid:");
    return fail(extra ? Fault::extra : Fault::index, token);
  }
  feature.column = index - !options.zero_based;
  if (feature.column < 0) return fail(Fault::index_zero, token);
  if (feature.column >= kMostColumns) return fail(Fault::index_large, token);
  if (options.n_features >= 0 && feature.column >= options.n_features) {
    return fail(Fault::index_beyond, token);
  }
  ++p;
  const char* const begin = p;
  const Number outcome = read_number(p, feature.value);
  if (outcome == Number::good && is_token_end(p)) return true;
  if (is_token_end(begin)) return fail(Fault::value_empty, token);
  if (outcome == Number::overflow) return fail(Fault::value_range, begin);
  p = begin;
  return read_value(p, options, feature.value);
}

// A value that is not a number.
template <class T>
bool Piece<T>::read_value(const char*& p, const TextOptions& options, T& result) {
  const char* const word = p + (*p == '-' || *p == '+');
  if (is_word(word, "inf") || is_word(word, "infinity")) return fail(Fault::value_infinite, p);
  if (!is_word(p, "null") && !is_word(p, "na") && !is_word(word, "nan")) {
    return fail(Fault::value, p);
  }
  if (options.missing == Missing::error) return fail(Fault::value_missing, p);
  result = options.missing == Missing::nan ? std::numeric_limits<T>::quiet_NaN() : T{0};
  p = token_end(p);
  return true;
}

template <class T>
PieceError Piece<T>::error_at(Fault fault, const char* token) const {
  const char* const end = token_end(token);
  const bool text = std::find(token, end, '\0') == end;
  return {text ? fault : Fault::not_text, lines, token, end};
}

template <class T>
bool Piece<T>::fail(Fault fault, const char* token) {
  error = error_at(fault, token);
  return false;
}

template struct Piece<float>;
template struct Piece<double>;

}  // namespace ranksvm::text
