// Features of items relative to their query, against the definitions in long double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "ranksvm/query_features.hpp"

namespace {

using ranksvm::Context;
using ranksvm::QueryFeature;
using ranksvm::RowsInGroups;
using ranksvm::SparseRows;
using ranksvm::Strided;
using Index = std::vector<int64_t>;
template <class O>
using Table = ranksvm::QueryFeatureTable<O>;

const std::vector<QueryFeature> kAll = {QueryFeature::zscore, QueryFeature::rank,
                                        QueryFeature::mean_diff, QueryFeature::minmax};
constexpr int64_t kPadding = 3;  // columns of `out` that are not ours

// Rows of queries of the given sizes, in a random order.
struct Queries {
  Index rows, offsets = {0};
  Queries(const Index& sizes, std::mt19937_64& random) {
    for (const int64_t n : sizes) offsets.push_back(offsets.back() + n);
    for (int64_t r = 0; r < offsets.back(); ++r) rows.push_back(r);
    std::shuffle(rows.begin(), rows.end(), random);
  }
  RowsInGroups groups() const {
    return {rows.data(), offsets.data(), static_cast<int64_t>(offsets.size()) - 1};
  }
  int64_t n_rows() const { return offsets.back(); }
};

double draw(int kind, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  switch (kind) {
    case 0:
      return normal(random);
    case 1:
      return static_cast<double>(random() % 5) - 2.0;
    case 2:
      return random() % 3 == 0 ? -0.0 : 0.0;
    case 3:
      return random() % 4 == 0 ? (random() % 2 == 0 ? 0.8e308 : -0.8e308) : normal(random);
    case 4:
      return 5e-324 * static_cast<double>(random() % 4);
    default:
      return 1e9 + 1e-6 * static_cast<double>(random() % 3);
  }
}

// The features of one column of a query. Differences from the least value keep their digits.
std::vector<std::vector<long double>> expected(const std::vector<double>& x) {
  const auto n = static_cast<long double>(x.size());
  const long double least = *std::min_element(x.begin(), x.end());
  const long double range = *std::max_element(x.begin(), x.end()) - least;
  long double sum = 0, squares = 0;
  for (const double value : x) sum += value - least;
  const long double mean = sum / n;
  for (const double value : x) squares += (value - least - mean) * (value - least - mean);
  const long double deviation = std::sqrt(squares / n);
  std::vector<std::vector<long double>> found(kAll.size());
  for (const double value : x) {
    long double rank = 0;
    for (const double other : x) rank += other < value ? 1.0L : other == value ? 0.5L : 0.0L;
    found[0].push_back(range > 0 ? (value - least - mean) / deviation : 0);
    found[1].push_back((rank + 0.5L) / n);
    found[2].push_back(value - least - mean);
    found[3].push_back(range > 0 ? (value - least) / range : 0);
  }
  return found;
}

template <class O>
bool is_right(const std::vector<double>& x, int64_t cols, const Queries& queries,
              const std::vector<O>& out) {
  const auto kinds = static_cast<int64_t>(kAll.size());
  const int64_t stride = kinds * cols + kPadding;
  bool right = true;
  for (std::size_t q = 0; q + 1 < queries.offsets.size(); ++q) {
    const int64_t begin = queries.offsets[q], n = queries.offsets[q + 1] - begin;
    for (int64_t c = 0; c < cols && n > 0; ++c) {
      std::vector<double> own;
      for (int64_t i = 0; i < n; ++i) own.push_back(x[queries.rows[begin + i] * cols + c]);
      const auto wanted = expected(own);
      for (int64_t k = 0; k < kinds; ++k) {
        // Ranks are rounded once; the others have an error relative to the largest of the query.
        long double scale = 0;
        for (const long double value : wanted[k]) scale = std::max(scale, std::fabs(value));
        const long double few = (k == 1 ? 1 : 100) * std::numeric_limits<O>::epsilon();
        for (int64_t i = 0; i < n; ++i) {
          const O got = out[queries.rows[begin + i] * stride + k * cols + c];
          const long double error = std::fabs(static_cast<long double>(got) - wanted[k][i]);
          right &= error <= few * scale + std::numeric_limits<O>::denorm_min();
        }
      }
    }
  }
  for (int64_t r = 0; r < queries.n_rows(); ++r) {
    for (int64_t p = 1; p <= kPadding; ++p) right &= out[(r + 1) * stride - p] == O{-7};
  }
  return right;
}

// The results of every number of threads, which are the same.
template <class O, class Matrix>
std::vector<O> computed(const Matrix& x, const Queries& queries) {
  const int64_t stride = static_cast<int64_t>(kAll.size()) * x.cols + kPadding;
  std::vector<O> first;
  for (const int threads : {1, 2, 3, 16}) {
    std::vector<O> out(static_cast<std::size_t>(queries.n_rows() * stride), O{-7});
    ranksvm::query_features(x, queries.groups(), kAll, Table<O>{out.data(), stride},
                            Context(threads));
    if (threads == 1) first = out;
    CHECK(out == first);
  }
  return first;
}

const Index kSizes = {1, 0, 2, 41, 3, 64, 100, 384, 385, 600, 1, 17};

}  // namespace

TEST(query_features_of_dense_items) {
  std::mt19937_64 random(1);
  const Queries queries(kSizes, random);
  const int64_t rows = queries.n_rows();
  for (const int64_t cols : {1, 7, 46}) {
    std::vector<double> x(static_cast<std::size_t>(rows * cols)), turned(x.size());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        x[r * cols + c] = turned[c * rows + r] = draw(static_cast<int>((c + cols) % 6), random);
      }
    }
    const auto by_rows = computed<double>(Strided<double>{x.data(), rows, cols, cols, 1}, queries);
    const auto by_columns =
        computed<double>(Strided<double>{turned.data(), rows, cols, 1, rows}, queries);
    CHECK(is_right(x, cols, queries, by_rows));
    CHECK(by_rows == by_columns);
  }
}

TEST(query_features_of_floats) {
  std::mt19937_64 random(2);
  const Queries queries(kSizes, random);
  const int64_t rows = queries.n_rows(), cols = 9;
  std::vector<float> x(static_cast<std::size_t>(rows * cols));
  for (float& value : x) value = static_cast<float>(draw(static_cast<int>(random() % 2), random));
  const std::vector<double> same(x.begin(), x.end());
  const Strided<float> matrix{x.data(), rows, cols, cols, 1};
  CHECK(is_right(same, cols, queries, computed<float>(matrix, queries)));
  CHECK(is_right(same, cols, queries, computed<double>(matrix, queries)));
}

TEST(query_features_of_wide_and_of_large_queries) {
  std::mt19937_64 random(3);
  for (const auto& [sizes, cols] : std::vector<std::pair<Index, int64_t>>{
           {{5, 12, 1}, 1500}, {{70'000, 3}, 17}, {{400'000}, 3}, {{900}, 1200}}) {
    const Queries queries(sizes, random);
    const int64_t rows = queries.n_rows();
    std::vector<double> x(static_cast<std::size_t>(rows * cols));
    for (double& value : x) value = draw(random() % 8 == 0 ? 0 : 1, random);
    const Strided<double> matrix{x.data(), rows, cols, cols, 1};
    const auto out = computed<float>(matrix, queries);
    if (rows < 1000) CHECK(is_right(x, cols, queries, out));
    // Every rank by a binary search among the sorted values.
    const int64_t stride = static_cast<int64_t>(kAll.size()) * cols + kPadding;
    for (const int64_t c : {int64_t{0}, cols - 1}) {
      bool right = true;
      for (std::size_t q = 0; q < sizes.size(); ++q) {
        const int64_t *begin = queries.rows.data() + queries.offsets[q], *end = begin + sizes[q];
        std::vector<double> sorted;
        for (const int64_t* row = begin; row < end; ++row) sorted.push_back(x[*row * cols + c]);
        std::sort(sorted.begin(), sorted.end());
        for (const int64_t* row = begin; row < end; ++row) {
          const auto [from, to] =
              std::equal_range(sorted.begin(), sorted.end(), x[*row * cols + c]);
          const double rank =
              0.5 * static_cast<double>((from - sorted.begin()) + (to - sorted.begin()) + 1);
          right &= out[*row * stride + cols + c] ==
                   static_cast<float>(rank / static_cast<double>(sizes[q]));
        }
      }
      CHECK(right);
    }
  }
}

TEST(query_features_of_sparse_items) {
  std::mt19937_64 random(4);
  for (const Index& sizes : {kSizes, Index{60'000}}) {
    const Queries queries(sizes, random);
    const int64_t rows = queries.n_rows(), cols = 23;
    std::vector<double> x(static_cast<std::size_t>(rows * cols)), value;
    std::vector<int32_t> start = {0}, column;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const bool is_stored = c == 5 || (c != 6 && random() % 4 == 0);
        if (!is_stored) continue;  // zeros are stored, too
        x[r * cols + c] = draw(static_cast<int>(c % 6), random);
        column.push_back(static_cast<int32_t>(c));
        value.push_back(x[r * cols + c]);
      }
      start.push_back(static_cast<int32_t>(column.size()));
    }
    const SparseRows<double, int32_t> matrix{start.data(), column.data(), value.data(), rows, cols};
    const auto out = computed<double>(matrix, queries);
    if (rows < 10'000) CHECK(is_right(x, cols, queries, out));
    const auto dense = computed<double>(Strided<double>{x.data(), rows, cols, cols, 1}, queries);
    const int64_t stride = static_cast<int64_t>(kAll.size()) * cols + kPadding;
    bool same_ranks = true;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = cols; c < 2 * cols; ++c) {
        same_ranks &= out[r * stride + c] == dense[r * stride + c];
      }
    }
    CHECK(same_ranks);
  }
}

TEST(query_features_refuse_what_does_not_exist) {
  const std::vector<double> x(6, 1.0);
  std::vector<double> out(6);
  const std::vector<QueryFeature> rank = {QueryFeature::rank};
  const Table<double> table{out.data(), 2};
  for (const int64_t row : {-1, 3}) {
    const Index rows = {0, row}, offsets = {0, 2};
    CHECK_THROWS(ranksvm::query_features(Strided<double>{x.data(), 3, 2, 2, 1},
                                         {rows.data(), offsets.data(), 1}, rank, table, Context(2)),
                 std::invalid_argument);
  }
  for (const int32_t wrong : {-1, 2}) {
    const Index rows = {0}, offsets = {0, 1};
    const std::vector<int32_t> start = {0, 1, 1, 1}, column = {wrong};
    CHECK_THROWS(ranksvm::query_features(
                     SparseRows<double, int32_t>{start.data(), column.data(), x.data(), 3, 2},
                     {rows.data(), offsets.data(), 1}, rank, table, Context(2)),
                 std::invalid_argument);
  }
}
