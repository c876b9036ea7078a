// Rows that are copied, against plain loops.
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "ranksvm/gather.hpp"

using ranksvm::Context;

TEST(rows_are_taken_in_any_order) {
  std::mt19937_64 random(1);
  for (const int64_t n_rows : {1, 7, 5000}) {
    for (const int64_t cols : {0, 1, 46}) {
      const int64_t stride = cols + 2;
      std::vector<double> x(static_cast<std::size_t>(n_rows * stride));
      for (double& value : x) value = static_cast<double>(random());
      for (const int64_t n : {0, 1, 9000}) {
        std::vector<int64_t> rows(static_cast<std::size_t>(n));
        for (int64_t& row : rows) row = static_cast<int64_t>(random() % n_rows);
        for (const int threads : {1, 2, 3, 5, 16}) {
          std::vector<double> out(static_cast<std::size_t>(n * cols), -1.0);
          ranksvm::take_rows(reinterpret_cast<const char*>(x.data()), n_rows, stride * 8, cols * 8,
                             rows.data(), n, reinterpret_cast<char*>(out.data()), Context(threads));
          bool equal = true;
          for (int64_t i = 0; i < n; ++i) {
            for (int64_t c = 0; c < cols; ++c) {
              equal &= out[i * cols + c] == x[rows[i] * stride + c];
            }
          }
          CHECK(equal);
        }
      }
    }
  }
}

TEST(compressed_rows_are_taken_in_any_order) {
  std::mt19937_64 random(2);
  constexpr int64_t kRows = 3000;
  std::vector<int32_t> start{0}, column;
  std::vector<float> value;
  for (int64_t r = 0; r < kRows; ++r) {
    for (uint64_t c = random() % 50; c < 300; c += 1 + random() % 40) {
      column.push_back(static_cast<int32_t>(c));
      value.push_back(static_cast<float>(random() % 1000));
    }
    start.push_back(static_cast<int32_t>(column.size()));
  }
  std::vector<int64_t> rows(40'000);
  for (int64_t& row : rows) row = static_cast<int64_t>(random() % kRows);
  const auto n = static_cast<int64_t>(rows.size()), size = static_cast<int64_t>(column.size());
  std::vector<int32_t> starts(rows.size() + 1);
  ranksvm::take_starts(start.data(), kRows, size, rows.data(), n, starts.data());
  for (const int threads : {1, 2, 3, 5, 16}) {
    std::vector<int32_t> columns(starts.back(), -1);
    std::vector<float> values(starts.back(), -1.0F);
    ranksvm::take_elements(start.data(), column.data(), value.data(), rows.data(), n, starts.data(),
                           columns.data(), values.data(), Context(threads));
    bool equal = true;
    for (int64_t i = 0; i < n; ++i) {
      const int32_t begin = start[rows[i]], count = start[rows[i] + 1] - begin;
      equal &= starts[i + 1] - starts[i] == count;
      for (int32_t k = 0; k < count; ++k) {
        equal &= columns[starts[i] + k] == column[begin + k];
        equal &= values[starts[i] + k] == value[begin + k];
      }
    }
    CHECK(equal);
  }
}

TEST(rows_that_do_not_exist_are_refused) {
  const std::vector<double> x(10);
  std::vector<double> out(2);
  for (const int64_t row : {-1, 5}) {
    const std::vector<int64_t> rows{row};
    CHECK_THROWS(ranksvm::take_rows(reinterpret_cast<const char*>(x.data()), 5, 16, 16, rows.data(),
                                    1, reinterpret_cast<char*>(out.data()), Context(2)),
                 std::invalid_argument);
    const std::vector<int64_t> start(6, 0);
    std::vector<int64_t> starts(2);
    CHECK_THROWS(ranksvm::take_starts(start.data(), 5, 0, rows.data(), 1, starts.data()),
                 std::invalid_argument);
  }
  for (const std::vector<int64_t>& start :
       {std::vector<int64_t>{0, 3}, std::vector<int64_t>{2, 1}, std::vector<int64_t>{-1, 1}}) {
    const std::vector<int64_t> rows{0};
    std::vector<int64_t> starts(2);
    CHECK_THROWS(ranksvm::take_starts(start.data(), 1, 2, rows.data(), 1, starts.data()),
                 std::invalid_argument);
  }
}
