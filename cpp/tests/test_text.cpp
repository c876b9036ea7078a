// LETOR text: numbers are exact, bad lines are found, no byte beyond the text is looked at, and
// cuts and threads change nothing. Texts lie in memory of exactly their size, so that the sanitizer
// sees a step too far.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "../src/text_number.hpp"
#include "check.hpp"
#include "ranksvm/text.hpp"

namespace {

using ranksvm::Context;
using ranksvm::Duplicates;
using ranksvm::Fault;
using ranksvm::Missing;
using ranksvm::QidUse;
using ranksvm::RowOutput;
using ranksvm::TextOptions;
using ranksvm::TextReader;

// All that can be read from a text, in a form that can be compared.
struct Outcome {
  Fault fault = Fault::none;
  int64_t line = 0, offset = 0, length = 0;
  int64_t width = 0;
  std::vector<uint64_t> y, value;
  std::vector<int64_t> start, column, qid, comment_ends;
  std::vector<uint32_t> qid_text;
  std::string comments;

  bool operator==(const Outcome&) const = default;
};

template <class T>
std::vector<uint64_t> bits(const std::vector<T>& values) {
  std::vector<uint64_t> result;
  for (const T value : values) result.push_back(std::bit_cast<uint64_t>(double{value}));
  return result;
}

// Feeds lines in blocks of about `block` bytes.
template <class T = double>
Outcome read(const std::string& text, TextOptions options = {}, int threads = 1,
             std::size_t block = SIZE_MAX) {
  const Context context(threads);
  TextReader<T> reader(options);
  Outcome found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t step = std::min(block, text.size() - at);
    const std::size_t end = text.find('\n', at + step - 1) + 1;
    const std::unique_ptr<char[]> exact(new char[end - at]);
    std::memcpy(exact.get(), text.data() + at, end - at);
    if (const auto error = reader.feed(exact.get(), end - at, context)) {
      found.fault = error->fault;
      found.line = error->line;
      found.offset = error->offset + static_cast<int64_t>(at);
      found.length = error->length;
      return found;
    }
    at = end;
  }
  const auto rows = static_cast<std::size_t>(reader.rows());
  const auto nonzeros = static_cast<std::size_t>(reader.nonzeros());
  std::vector<double> y(rows);
  std::vector<T> value(nonzeros);
  found.width = reader.width();
  found.start.resize(rows + 1);
  found.column.resize(nonzeros);
  RowOutput out;
  out.y = y.data();
  if (reader.has_qid() && reader.qid_chars() == 0) {
    found.qid.resize(rows);
    out.qid = found.qid.data();
  } else if (reader.has_qid()) {
    found.qid_text.resize(rows * static_cast<std::size_t>(reader.qid_chars()));
    out.qid_text = found.qid_text.data();
  }
  found.comments.resize(static_cast<std::size_t>(reader.comment_bytes()));
  found.comment_ends.resize(rows + 1);
  out.comments = found.comments.data();
  out.comment_ends = found.comment_ends.data();
  reader.take_sparse(found.start.data(), found.column.data(), value.data(), out, context);
  found.y = bits(y);
  found.value = bits(value);
  CHECK_EQ(reader.rows(), 0);  // empty again
  return found;
}

const std::string kGood =
    "2 qid:1 1:0.5 2:-1.25e-3 46:1 #docid = GX008-86-4444840 inc = 1 prob = 0.0866\r\n"
    "# a comment\n"
    "0 qid:1 1:0.333333 3:1e3 2:7\n"
    "\n"
    "1 qid:2\t2:NULL  7:0.1 # \xe9\n"
    "0 qid:q\xc3\xa9 1:-0.0 5:12345678901234567890 6:2.2250738585072011e-308\n";

// Every way of reading has to give the same; returns it.
Outcome read_all_ways(const std::string& text, TextOptions options) {
  const Outcome once = read(text, options);
  for (const int64_t piece : {1, 7, 64}) {
    options.piece_bytes = piece;
    for (const std::size_t block : {std::size_t{1}, std::size_t{50}, SIZE_MAX}) {
      CHECK(read(text, options, 1 + static_cast<int>(piece % 2), block) == once);
    }
  }
  read<float>(text, options);  // its range is smaller, so it may refuse more
  return once;
}

double number(const std::string& text) {
  const std::unique_ptr<char[]> exact(new char[text.size() + 1]);
  std::memcpy(exact.get(), text.data(), text.size());
  exact[text.size()] = '\n';
  const char* p = exact.get();
  double value = -77.0;
  const auto outcome = ranksvm::text::read_number(p, value);
  CHECK(outcome == ranksvm::text::Number::good);
  CHECK(p == exact.get() + text.size());
  return value;
}

}  // namespace

TEST(numbers_are_rounded_once) {
  std::mt19937_64 random(1);
  const auto same = [](const std::string& text) {
    const double expected = std::strtod(text.c_str(), nullptr);
    CHECK_EQ(std::bit_cast<uint64_t>(number(text)), std::bit_cast<uint64_t>(expected));
  };
  for (const char* text :
       {"0", "-0", "1.", ".5", "+3", "1e22", "1e23", "9007199254740993", "9007199254740992.5",
        "123456789012345678", "4.9e-324", "2.4703282292062327e-324", "1e-400", "0e999",
        "0.000000000000000000000000000000000001e30", "1.7976931348623157e308", "1E+05", "00.10"}) {
    same(text);
  }
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    if (random() % 3 == 0) text.push_back('-');
    const uint64_t digits = 1 + random() % 25, point = random() % (digits + 1);
    for (uint64_t d = 0; d <= digits; ++d) {
      text.push_back(d == point ? '.' : static_cast<char>('0' + random() % 10));
    }
    if (random() % 2 == 0) {
      text.push_back('e');
      text.append(std::to_string(static_cast<int>(random() % 80) - 40));
    }
    same(text);
  }
}

TEST(floats_are_rounded_once) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    char text[40];
    *ranksvm::text::write_number(text, value) = '\n';
    const char* p = text;
    float back = 0.0F;
    CHECK(ranksvm::text::read_number(p, back) == ranksvm::text::Number::good);
    CHECK_EQ(std::bit_cast<uint32_t>(back), std::bit_cast<uint32_t>(value));
  }
}

TEST(what_is_no_number_is_refused) {
  for (const char* text :
       {"\n", "+\n", "-.\n", ".e5\n", "1e\n", "1e+\n", "e5\n", "-+1\n", "nan\n"}) {
    const char* p = text;
    double value = 0.0;
    CHECK(ranksvm::text::read_number(p, value) == ranksvm::text::Number::malformed);
  }
  for (const char* text : {"1e309\n", "-1e999999999999999999999\n", "1797693134862315900e290\n"}) {
    const char* p = text;
    double value = 0.0;
    CHECK(ranksvm::text::read_number(p, value) == ranksvm::text::Number::overflow);
  }
}

TEST(a_good_text_is_read) {
  TextOptions options;
  options.missing = Missing::nan;
  const Outcome found = read_all_ways(kGood, options);
  CHECK(found.fault == Fault::none);
  CHECK_EQ(found.width, 46);
  CHECK(found.y == bits(std::vector<double>{2, 0, 1, 0}));
  CHECK(found.start == (std::vector<int64_t>{0, 3, 6, 8, 10}));
  CHECK(found.column == (std::vector<int64_t>{0, 1, 45, 0, 1, 2, 1, 6, 4, 5}));
  CHECK_EQ(found.qid_text.size(), 8U);
  CHECK_EQ(found.qid_text[7], 0xe9U);
  CHECK_EQ(found.qid_text[5], 0U);
  const std::string first = "#docid = GX008-86-4444840 inc = 1 prob = 0.0866";
  const auto length = static_cast<int64_t>(first.size());
  CHECK(found.comments == first + "# \xe9");
  CHECK(found.comment_ends == (std::vector<int64_t>{0, length, length, length + 3, length + 3}));
}

TEST(faults_are_placed) {
  struct Case {
    std::string text;
    Fault fault;
    int64_t line, offset, length;
  };
  for (const Case& c : std::vector<Case>{
           {"x 1:1\n", Fault::label, 1, 0, 1},
           {"1 1:1\n1:1\n", Fault::label, 2, 6, 3},
           {"1e999\n", Fault::label_range, 1, 0, 5},
           {"9007199254740993\n", Fault::label_inexact, 1, 0, 16},
           {"9007199254740994 1:1\n-0009007199254740993 1:1\n", Fault::label_inexact, 2, 21, 20},
           {"36893488147419103232\n36893488147419103233\n", Fault::label_inexact, 2, 21, 20},
           {"1 qid:1\n1 1:2\n", Fault::qid_missing, 2, 10, 3},
           {"1\n1 qid:1\n", Fault::qid_unexpected, 2, 4, 5},
           {"1 qid: 1:2\n", Fault::qid_bad, 1, 2, 4},
           {"1 1:2 qid:3\n", Fault::qid_late, 1, 6, 5},
           {"1 cost:2\n", Fault::extra, 1, 2, 6},
           {"1 a:2\n", Fault::index, 1, 2, 3},
           {"1 0:2\n", Fault::index_zero, 1, 2, 3},
           {"1 -1:2\n", Fault::index_negative, 1, 2, 4},
           {"1 2147483648:2\n", Fault::index_large, 1, 2, 12},
           {"1 99999999999999999999999999:2\n", Fault::index_large, 1, 2, 28},
           {"1 1:x\n", Fault::value, 1, 4, 1},
           {"1 1:\n", Fault::value_empty, 1, 2, 2},
           {"1 1:NULL\n", Fault::value_missing, 1, 4, 4},
           {"1 1:-inf\n", Fault::value_infinite, 1, 4, 4},
           {"1 1:1e400\n", Fault::value_range, 1, 4, 5},
           {"1 2:1 1:1 2:3 1:4\n", Fault::duplicate, 1, 10, 3},
           {std::string("1 1:1 # \0\n", 10), Fault::not_text, 1, 8, 1},
       }) {
    const Outcome found = read_all_ways(c.text, {});
    CHECK_EQ(found.fault, c.fault);
    CHECK_EQ(found.line, c.line);
    CHECK_EQ(found.offset, c.offset);
    CHECK_EQ(found.length, c.length);
  }
}

TEST(text_without_a_line_end_is_refused) {
  TextReader<double> reader({});
  CHECK_THROWS(reader.feed("1 1:2", 5, Context()), std::invalid_argument);
  CHECK(!reader.feed("", 0, Context()).has_value());
  CHECK_EQ(reader.rows(), 0);
}

TEST(every_prefix_can_be_read_or_refused) {
  TextOptions options;
  options.missing = Missing::zero;
  for (std::size_t end = 0; end <= kGood.size(); ++end) {
    read_all_ways(kGood.substr(0, end) + "\n", options);
  }
}

TEST(damaged_text_can_be_read_or_refused) {
  std::mt19937_64 random(3);
  constexpr char kBytes[] = "0123456789:+-.eE# \t\r\nqidNUL\0\xff\xc3\xa9";
  const std::string alphabet(kBytes, sizeof kBytes - 1);
  int good = 0, bad = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = kGood;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 3);
          break;
        case 2:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
      if (text.empty()) text.push_back('1');
    }
    TextOptions options;
    options.missing = random() % 2 == 0 ? Missing::nan : Missing::zero;
    options.duplicates = static_cast<Duplicates>(random() % 3);
    options.qid = static_cast<QidUse>(random() % 3);
    options.sort = random() % 2 == 0;
    options.zero_based = random() % 2 == 0;
    options.n_features = random() % 2 == 0 ? -1 : static_cast<int64_t>(random() % 60);
    (read_all_ways(text + "\n", options).fault == Fault::none ? good : bad) += 1;
  }
  CHECK(good > 200);
  CHECK(bad > 200);
}

TEST(random_bytes_can_be_read_or_refused) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 4000; ++i) {
    std::string text(random() % 50, ' ');
    for (char& c : text) c = static_cast<char>(random());
    read_all_ways(text + "\n", {});
  }
}

TEST(long_lines_are_read) {
  std::string text = "1 qid:7";
  for (int i = 1; i <= 200000; ++i) {
    text.push_back(' ');
    text.append(std::to_string(7 * i)).append(":0.5");
  }
  text += "\n2 qid:7 1:1\n";
  const Outcome found = read(text, {}, 2);
  CHECK_EQ(found.start[1], 200000);
  CHECK_EQ(found.column[199999], 1399999);
  CHECK_EQ(found.column[200000], 0);
}

TEST(what_is_written_reads_back) {
  std::mt19937_64 random(5);
  constexpr int64_t kRows = 300, kCols = 17;
  std::vector<double> x(kRows * kCols), y(kRows);
  std::vector<int64_t> qid(kRows);
  const auto draw = [&] {
    double value = 0.0;
    do value = std::bit_cast<double>(random());
    while (!std::isfinite(value));
    return random() % 4 == 0 ? 0.0 : value;
  };
  for (double& value : x) value = draw();
  for (double& value : y) value = draw();
  for (int64_t& id : qid) id = static_cast<int64_t>(random());
  for (const bool zeros : {true, false}) {
    ranksvm::RowText rows{y.data()};
    rows.qid = qid.data();
    const ranksvm::DenseText<double> matrix{x.data(), kCols, zeros};
    const std::string text = ranksvm::format_rows(matrix, rows, kRows, Context(2));
    for (const int threads : {1, 3, 5, 16}) {
      CHECK(text == ranksvm::format_rows(matrix, rows, kRows, Context(threads)));
    }
    TextReader<double> reader({});
    CHECK(!reader.feed(text.data(), text.size(), Context(2)).has_value());
    CHECK_EQ(reader.rows(), kRows);
    std::vector<double> x_back(x.size(), -1.0), y_back(kRows);
    std::vector<int64_t> qid_back(kRows);
    RowOutput out;
    out.y = y_back.data();
    out.qid = qid_back.data();
    reader.take_dense(x_back.data(), kCols, out, Context(2));
    CHECK(bits(x_back) == bits(x));
    CHECK(bits(y_back) == bits(y));
    CHECK(qid_back == qid);
  }
}

TEST(files_are_read_from_any_place) {
  if (!ranksvm::can_read_at()) return;
  std::FILE* const file = std::tmpfile();
  CHECK(file != nullptr);
  std::string text(3'000'001, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(1 + i * i % 251);
  CHECK_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
  CHECK_EQ(std::fflush(file), 0);
  for (const int threads : {1, 2, 3, 5, 16}) {
    for (const std::size_t begin : {0, 1, 524'288, 2'999'999, 3'000'001, 4'000'000}) {
      for (const std::size_t size : {0, 1, 524'288, 1'500'000, 4'000'000}) {
        std::string got(size, '\0');
        const int64_t count = ranksvm::read_at(fileno(file), static_cast<int64_t>(begin),
                                               got.data(), size, Context(threads));
        const std::size_t rest = text.size() - std::min(begin, text.size());
        CHECK_EQ(count, static_cast<int64_t>(std::min(size, rest)));
        got.resize(static_cast<std::size_t>(std::max<int64_t>(0, count)));
        CHECK(got == text.substr(std::min(begin, text.size()), got.size()));
      }
    }
  }
  std::fclose(file);
  char byte = 0;
  CHECK(ranksvm::read_at(-1, 0, &byte, 1, Context(2)) < 0);
}

TEST(the_first_nul_is_found) {
  std::string text(2'000'000, 'x');
  for (const int threads : {1, 2, 16}) {
    CHECK_EQ(ranksvm::find_nul(text.data(), text.size(), Context(threads)), -1);
    CHECK_EQ(ranksvm::find_nul(text.data(), 0, Context(threads)), -1);
  }
  text[1'999'999] = '\0';
  for (const std::size_t place : {1'999'999, 1'600'000, 524'288, 524'287, 1, 0}) {
    text[place] = '\0';
    for (const int threads : {1, 2, 3, 5, 16}) {
      CHECK_EQ(ranksvm::find_nul(text.data(), text.size(), Context(threads)),
               static_cast<int64_t>(place));
    }
  }
}

TEST(many_parts_fill_the_same_arrays_with_any_number_of_threads) {
  std::string text;
  for (int row = 0; row < 40'000; ++row) {
    text += std::to_string(row % 3) + " qid:" + std::to_string(row / 7);
    for (int c = row % 5; c < 30; c += 1 + row % 3) {
      text += ' ';
      text += std::to_string(c + 1) + ":" + std::to_string(row * 31 + c) + "e-3";
    }
    if (row % 2 == 0) text.append(" # item ").append(std::to_string(row));
    text += '\n';
  }
  std::vector<double> x_first, y_first;
  for (const int threads : {1, 2, 3, 5, 16}) {
    for (const int64_t piece : {1 << 10, 1 << 17}) {
      TextOptions options;
      options.piece_bytes = piece;
      TextReader<double> reader(options);
      CHECK(!reader.feed(text.data(), text.size(), Context(threads)).has_value());
      std::vector<double> x(40'000 * 30, -1.0), y(40'000);
      std::vector<int64_t> qid(40'000), ends(40'001);
      std::string comments(static_cast<std::size_t>(reader.comment_bytes()), '\0');
      RowOutput out;
      out.y = y.data();
      out.qid = qid.data();
      out.comments = comments.data();
      out.comment_ends = ends.data();
      reader.take_dense(x.data(), 30, out, Context(threads));
      CHECK_EQ(reader.rows(), 0);
      CHECK_EQ(qid[39'999], 39'999 / 7);
      CHECK_EQ(ends[40'000], static_cast<int64_t>(comments.size()));
      if (x_first.empty()) {
        x_first = x;
        y_first = y;
      }
      CHECK(x == x_first);
      CHECK(y == y_first);
    }
  }
}
