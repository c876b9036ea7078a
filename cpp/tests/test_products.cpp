// Products with dense and sparse matrices, and the scatter matrix, against plain loops.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "check.hpp"
#include "ranksvm/products.hpp"

namespace {

using ranksvm::Context;
using ranksvm::DenseRows;
using ranksvm::SparseRows;
using Vector = std::vector<double>;

Vector random_vector(std::size_t n, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Vector x(n);
  for (double& v : x) v = normal(random);
  return x;
}

// A x and A' g by definition, with the sizes of the terms that rounding errors go with.
struct Truth {
  std::vector<long double> dot, dot_size, sum, sum_size, row_square, column_square;
  Truth(int64_t rows, int64_t cols)
      : dot(rows),
        dot_size(rows),
        sum(cols),
        sum_size(cols),
        row_square(rows),
        column_square(cols) {}
  void add(int64_t r, int64_t c, double value, const Vector& x, const Vector& g) {
    row_square[r] += static_cast<long double>(value) * value;
    column_square[c] += static_cast<long double>(value) * value;
    dot[r] += static_cast<long double>(value) * x[c];
    dot_size[r] += std::abs(static_cast<long double>(value) * x[c]);
    sum[c] += static_cast<long double>(value) * g[r];
    sum_size[c] += std::abs(static_cast<long double>(value) * g[r]);
  }
};

bool near(const Vector& got, const std::vector<long double>& expected,
          const std::vector<long double>& size, long double off = 1e-14L) {
  bool ok = true;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ok &= std::abs(got[i] - expected[i]) <= off * size[i] + 1e-300L;
  }
  return ok;
}

// Both products, for several thread counts: right, and the same bits.
template <class Matrix>
void check_products(const Matrix& a, const Vector& x, const Vector& g, const Truth& truth) {
  Vector dot(a.rows, std::nan("")), sum(a.cols, std::nan(""));
  multiply(a, x.data(), dot.data(), Context(1));
  multiply_transposed(a, g.data(), sum.data(), Context(1));
  CHECK(near(dot, truth.dot, truth.dot_size));
  CHECK(near(sum, truth.sum, truth.sum_size));
  Vector row(a.rows, std::nan("")), column(a.cols, std::nan(""));
  squares_of_rows(a, 4.0, row.data(), Context(2));
  squares_of_columns(a, 4.0, column.data(), Context(2));
  for (double& v : row) v /= 16.0;
  for (double& v : column) v /= 16.0;
  CHECK(near(row, truth.row_square, truth.row_square, 1e-11L));
  CHECK(near(column, truth.column_square, truth.column_square, 1e-11L));
  for (const int threads : {2, 3, 5}) {
    Vector dot_again(a.rows, std::nan("")), sum_again(a.cols, std::nan(""));
    multiply(a, x.data(), dot_again.data(), Context(threads));
    multiply_transposed(a, g.data(), sum_again.data(), Context(threads));
    CHECK(dot_again == dot);
    CHECK(sum_again == sum);
  }
}

template <class T>
void check_dense(int64_t rows, int64_t cols, int64_t stride, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const Vector x = random_vector(cols, random), g = random_vector(rows, random);
  std::vector<T> data(rows == 0 ? 0 : (rows - 1) * stride + cols);
  for (T& v : data) v = static_cast<T>(normal(random));
  Truth truth(rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) truth.add(r, c, data[r * stride + c], x, g);
  }
  check_products(DenseRows<T>{data.data(), rows, cols, stride}, x, g, truth);
}

template <class T, class I>
void check_sparse(int64_t rows, int64_t cols, double density, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::bernoulli_distribution there(density);
  const Vector x = random_vector(cols, random), g = random_vector(rows, random);
  std::vector<I> start{0}, column;
  std::vector<T> value;
  Truth truth(rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols && r % 5 != 2; ++c) {  // some rows are empty
      if (!there(random)) continue;
      column.push_back(static_cast<I>(c));
      value.push_back(static_cast<T>(normal(random)));
      truth.add(r, c, value.back(), x, g);
    }
    start.push_back(static_cast<I>(column.size()));
  }
  check_products(SparseRows<T, I>{start.data(), column.data(), value.data(), rows, cols}, x, g,
                 truth);
}

template <class T>
void check_dense_shapes() {
  unsigned seed = 1;
  for (const int64_t rows : {0, 1, 3, 4, 5, 17}) {
    for (const int64_t cols : {0, 1, 7, 8, 9, 33}) {
      check_dense<T>(rows, cols, cols, ++seed);
      check_dense<T>(rows, cols, cols + 3, ++seed);
    }
  }
  check_dense<T>(30001, 20, 20, 100);  // pieces
  check_dense<T>(20, 30001, 30001, 101);
  check_dense<T>(2, 300000, 300000, 102);
}

template <class T, class I>
void check_sparse_shapes() {
  unsigned seed = 1;
  for (const int64_t rows : {0, 1, 3, 17}) {
    for (const int64_t cols : {0, 1, 8, 33}) {
      for (const double density : {0.0, 0.3, 1.0}) check_sparse<T, I>(rows, cols, density, ++seed);
    }
  }
  check_sparse<T, I>(20001, 60, 0.5, 100);
  check_sparse<T, I>(60, 20001, 0.5, 101);
}

}  // namespace

TEST(dense_products_double) { check_dense_shapes<double>(); }
TEST(dense_products_float) { check_dense_shapes<float>(); }
TEST(sparse_products_double_32) { check_sparse_shapes<double, int32_t>(); }
TEST(sparse_products_double_64) { check_sparse_shapes<double, int64_t>(); }
TEST(sparse_products_float_32) { check_sparse_shapes<float, int32_t>(); }
TEST(sparse_products_float_64) { check_sparse_shapes<float, int64_t>(); }

TEST(sparse_products_of_uneven_rows) {
  // Nearly all entries in three of many rows, also the first and the last.
  constexpr int64_t kRows = 2000, kCols = 300;
  std::mt19937_64 random(7);
  std::vector<int32_t> start{0}, column;
  std::vector<double> value;
  Truth truth(kRows, kCols);
  const Vector x = random_vector(kCols, random), g = random_vector(kRows, random);
  for (int64_t r = 0; r < kRows; ++r) {
    const bool full = r == 0 || r == 1000 || r == kRows - 1;
    for (int64_t k = 0; k < (full ? 300000 : r % 2); ++k) {  // columns may come more than once
      column.push_back(static_cast<int32_t>(random() % kCols));
      value.push_back(static_cast<double>(random() % 100) / 10);
      truth.add(r, column.back(), value.back(), x, g);
    }
    start.push_back(static_cast<int32_t>(column.size()));
  }
  check_products(
      SparseRows<double, int32_t>{start.data(), column.data(), value.data(), kRows, kCols}, x, g,
      truth);
}

TEST(products_of_floats_are_summed_in_double) {
  const float data[] = {1e8F, 1.0F, -1e8F};
  const double ones[] = {1.0, 1.0, 1.0};
  double out = 0.0;
  multiply(DenseRows<float>{data, 1, 3, 3}, ones, &out, Context(1));
  CHECK_EQ(out, 1.0);
  multiply_transposed(DenseRows<float>{data, 3, 1, 1}, ones, &out, Context(1));
  CHECK_EQ(out, 1.0);
}

TEST(products_can_be_interrupted) {
  const Vector data(1000000, 1.0), x(100, 1.0);
  Vector out(10000);
  const Context stopped(2, [] { return true; });
  auto multiply_for_long = [&] {
    for (int i = 0; i < 1000000; ++i) {
      multiply(DenseRows<double>{data.data(), 10000, 100, 100}, x.data(), out.data(), stopped);
    }
  };
  CHECK_THROWS(multiply_for_long(), ranksvm::Interrupted);
  multiply(DenseRows<double>{data.data(), 10000, 100, 100}, x.data(), out.data(), Context(2));
  CHECK(out == Vector(10000, 100.0));
}

namespace {

// `transposed`: columns one after the other, as Fortran stores them.
template <class T>
void check_scatter(int64_t n, int64_t cols, int64_t groups, bool transposed, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> data(n * cols);
  for (T& v : data) v = static_cast<T>(normal(random));
  const ranksvm::Strided<T> a{data.data(), n, cols, transposed ? 1 : cols, transposed ? n : 1};
  auto at = [&](int64_t r, int64_t c) {
    return static_cast<double>(data[r * a.row_stride + c * a.col_stride]);
  };
  Vector weight(n);
  for (double& w : weight) w = static_cast<double>(random() % 3);
  std::vector<int64_t> rows(n), offsets{0};
  for (int64_t i = 0; i < n; ++i) rows[i] = i;
  std::shuffle(rows.begin(), rows.end(), random);
  for (int64_t g = 1; g <= groups; ++g) offsets.push_back(n * g / groups);

  Vector expected(cols * cols, 0.0), mean(cols);
  for (int64_t g = 0; g < groups; ++g) {
    double total = 0.0;
    std::fill(mean.begin(), mean.end(), 0.0);
    for (int64_t k = offsets[g]; k < offsets[g + 1]; ++k) {
      total += weight[rows[k]];
      for (int64_t c = 0; c < cols; ++c) mean[c] += weight[rows[k]] * at(rows[k], c);
    }
    for (int64_t k = offsets[g]; k < offsets[g + 1] && total > 0.0; ++k) {
      for (int64_t i = 0; i < cols; ++i) {
        for (int64_t j = 0; j < cols; ++j) {
          expected[i * cols + j] += weight[rows[k]] * (at(rows[k], i) - mean[i] / total) *
                                    (at(rows[k], j) - mean[j] / total);
        }
      }
    }
  }
  Vector one(cols * cols, std::nan("")), two(cols * cols, std::nan(""));
  const ranksvm::RowsInGroups all{rows.data(), offsets.data(), groups};
  ranksvm::scatter(a, weight.data(), all, one.data(), Context(1));
  ranksvm::scatter(a, weight.data(), all, two.data(), Context(2));
  CHECK(one == two);
  bool close = true;
  for (std::size_t i = 0; i < one.size(); ++i) {
    close &= std::abs(one[i] - expected[i]) <= 1e-11 * static_cast<double>(n);
  }
  CHECK(close);
}

}  // namespace

TEST(scatter_matches_its_definition) {
  unsigned seed = 1;
  for (const int64_t cols : {1, 4, 8, 9, 23}) {
    for (const int64_t groups : {1, 3, 10, 200}) {
      check_scatter<double>(400, cols, groups, false, ++seed);
      check_scatter<float>(400, cols, groups, true, ++seed);
    }
  }
  check_scatter<double>(1, 3, 1, false, 99);
}

TEST(scatter_of_a_sample_keeps_its_size) {
  // Items of one group on both sides of its mean: every sample has the same variance.
  constexpr int64_t kItems = 4000;
  Vector data(kItems), weight(kItems, 2.0);
  std::vector<int64_t> rows(kItems), offsets{0};
  for (int64_t i = 0; i < kItems; ++i) {
    data[i] = i % 4 < 2 ? -1.0 : 1.0;
    rows[i] = i;
  }
  for (int64_t g = 1; g <= 100; ++g) offsets.push_back(40 * g);
  const ranksvm::Strided<double> a{data.data(), kItems, 1, 1, 1};
  for (const int64_t step : {1, 2, 4, 10}) {
    const ranksvm::RowSample sample =
        ranksvm::sample_rows(a, rows.data(), offsets.data(), 100, step, true, Context(2));
    double out = 0.0;
    ranksvm::scatter(a, weight.data(), {sample.rows.data(), sample.offsets.data(), 100}, &out,
                     Context(2));
    CHECK_NEAR(out, 2.0 * kItems, 1e-9);
  }
}

TEST(samples_are_chosen_by_hash) {
  constexpr int64_t kItems = 20000, kGroups = 2000, kStep = 10;
  Vector data(kItems);
  std::vector<int64_t> rows(kItems), offsets(kGroups + 1);
  for (int64_t i = 0; i < kItems; ++i) {
    data[i] = std::sin(static_cast<double>(i));
    rows[i] = kItems - 1 - i;
  }
  for (int64_t g = 0; g <= kGroups; ++g) offsets[g] = 10 * g;
  const ranksvm::Strided<double> a{data.data(), kItems, 1, 1, 1};
  std::vector<uint64_t> hashes(kItems);
  ranksvm::hash_rows(a, hashes.data(), Context(1));
  for (const bool by_group : {false, true}) {
    std::vector<int64_t> expected, ends{0};
    for (int64_t g = 0; g < kGroups; ++g) {
      uint64_t largest = 0;
      for (int64_t k = 10 * g; k < 10 * (g + 1); ++k) largest = std::max(largest, hashes[rows[k]]);
      for (int64_t k = 10 * g; k < 10 * (g + 1); ++k) {
        const uint64_t hash = by_group ? ranksvm::mix_hash(largest) : hashes[rows[k]];
        if (hash % kStep == 0) expected.push_back(rows[k]);
      }
      ends.push_back(static_cast<int64_t>(expected.size()));
    }
    for (const int threads : {1, 2, 5}) {
      const ranksvm::RowSample sample = ranksvm::sample_rows(
          a, rows.data(), offsets.data(), kGroups, kStep, by_group, Context(threads));
      CHECK(sample.rows == expected);
      CHECK(sample.offsets == ends);
    }
  }
}

namespace {

// `items_are_rows`: as CSR stores items; otherwise the rows of the matrix are the features, as in
// CSC.
template <class T, class I>
void check_diagonal(int64_t items, int64_t features, int64_t groups, bool items_are_rows,
                    unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<int64_t> group(items), members, offsets{0};
  for (int64_t& g : group) g = static_cast<int64_t>(random() % static_cast<uint64_t>(groups));
  for (int64_t g = 0; g < groups; ++g) {  // some may be empty
    for (int64_t i = 0; i < items; ++i) {
      if (group[i] == g) members.push_back(i);
    }
    offsets.push_back(static_cast<int64_t>(members.size()));
  }
  // Some items weigh nothing; when there are several groups, all items of the first one.
  Vector weight(items);
  for (int64_t i = 0; i < items; ++i) {
    weight[i] = groups > 1 && group[i] == 0 ? 0.0 : static_cast<double>(random() % 3);
  }
  const int64_t rows = items_are_rows ? items : features, cols = items_are_rows ? features : items;
  std::vector<I> start{0}, column;
  std::vector<T> value;
  Vector dense(items * features, 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      if (random() % 3 != 0) continue;
      column.push_back(static_cast<I>(c));
      value.push_back(static_cast<T>(1.0 + normal(random)));
      dense[items_are_rows ? r * features + c : c * features + r] = value.back();
    }
    start.push_back(static_cast<I>(column.size()));
  }
  const SparseRows<T, I> a{start.data(), column.data(), value.data(), rows, cols};
  const ranksvm::Groups of{groups, group.data(), members.data(), offsets.data()};
  Vector one(features, std::nan("")), two(features, std::nan(""));
  ranksvm::scatter_diagonal(a, items_are_rows, weight.data(), of, one.data(), Context(1));
  ranksvm::scatter_diagonal(a, items_are_rows, weight.data(), of, two.data(), Context(2));
  CHECK(one == two);
  bool close = true;
  for (int64_t f = 0; f < features; ++f) {
    double expected = 0.0;
    for (int64_t g = 0; g < groups; ++g) {
      double mean = 0.0, total = 0.0;
      for (int64_t m = offsets[g]; m < offsets[g + 1]; ++m) {
        mean += weight[members[m]] * dense[members[m] * features + f];
        total += weight[members[m]];
      }
      for (int64_t m = offsets[g]; m < offsets[g + 1] && total > 0.0; ++m) {
        const double x = dense[members[m] * features + f] - mean / total;
        expected += weight[members[m]] * x * x;
      }
    }
    close &= std::abs(one[f] - expected) <= 1e-10 * static_cast<double>(items);
  }
  CHECK(close);
}

}  // namespace

TEST(scatter_diagonal_matches_its_definition) {
  unsigned seed = 1;
  for (const bool items_are_rows : {true, false}) {
    for (const int64_t groups : {1, 4, 60}) {
      check_diagonal<double, int32_t>(100, 17, groups, items_are_rows, ++seed);
      check_diagonal<float, int64_t>(100, 17, groups, items_are_rows, ++seed);
    }
    check_diagonal<double, int32_t>(1, 1, 1, items_are_rows, ++seed);
    check_diagonal<double, int32_t>(20000, 50, 300, items_are_rows, ++seed);  // pieces
  }
}
