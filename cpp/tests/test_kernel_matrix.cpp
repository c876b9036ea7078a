// Kernel matrices in tiles, against plain loops in long double, on every instruction set that this
// machine has.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "ranksvm/kernel_matrix.hpp"

namespace {

using namespace ranksvm;  // NOLINT: the whole file is about this namespace
using Vector = std::vector<double>;

std::vector<const SimdLoops*> all_loops() {
  std::vector<const SimdLoops*> all;
  for (const char* name : {"base", "avx2", "avx512"}) {
    if (const SimdLoops* loops = simd_loops_named(name)) all.push_back(loops);
  }
  return all;
}

enum class Storage { dense, sparse32, sparse64 };
constexpr Storage kStorages[] = {Storage::dense, Storage::sparse32, Storage::sparse64};

// Random items in all storages. Dense ones have room behind every row; about half of the features
// are zero, and some rows are empty.
struct Items {
  int64_t rows, cols, stride;
  Vector dense, value, shift;
  std::vector<int32_t> start32{0}, column32;
  std::vector<int64_t> start64{0}, column64;

  Items(int64_t n, int64_t d, unsigned seed) : rows(n), cols(d), stride(d + 3) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    dense.assign(n * stride, std::nan(""));
    for (int64_t r = 0; r < n; ++r) {
      const bool empty = random() % 7 == 0;
      shift.push_back(normal(random));
      for (int64_t c = 0; c < d; ++c) {
        const double x = normal(random) / std::sqrt(static_cast<double>(d));
        const bool zero = empty || random() % 2 == 0;
        dense[r * stride + c] = zero ? 0.0 : x;
        if (zero) continue;
        value.push_back(x);
        column32.push_back(static_cast<int32_t>(c));
        column64.push_back(c);
      }
      start32.push_back(static_cast<int32_t>(value.size()));
      start64.push_back(static_cast<int64_t>(value.size()));
    }
  }

  double at(int64_t r, int64_t c) const { return dense[r * stride + c]; }
  std::unique_ptr<KernelRows> in(Storage storage, const SimdLoops& loops = simd_loops()) const {
    KernelRows::Data data = Strided<double>{dense.data(), rows, cols, stride, 1};
    if (storage == Storage::sparse32) {
      data = SparseRows<double, int32_t>{start32.data(), column32.data(), value.data(), rows, cols};
    } else if (storage == Storage::sparse64) {
      data = SparseRows<double, int64_t>{start64.data(), column64.data(), value.data(), rows, cols};
    }
    return std::make_unique<KernelRows>(data, ItemScale(), shift.data(), loops);
  }
};

std::vector<KernelFunction> functions() {
  return {
      kernel_function("linear", 1.0, 0.0, 1, 1.0),  kernel_function("poly", 0.7, 0.3, 0, 2.0),
      kernel_function("poly", 0.7, 0.3, 1, 1.0),    kernel_function("poly", 0.7, -0.3, 5, 1.0),
      kernel_function("sigmoid", 0.8, 0.1, 1, 1.0), kernel_function("rbf", 0.9, 0.0, 1, 1.0),
      kernel_function("rbf", 40.0, 0.0, 1, 0.5),    kernel_function("laplacian", 0.4, 0.0, 1, 3.0),
      kernel_function("cosine", 1.3, 0.0, 1, 0.25)};
}

long double truth(const KernelFunction& f, const Items& a, int64_t i, const Items& b, int64_t j) {
  long double dot = 0, square = 0, size = 0;
  for (int64_t c = 0; c < a.cols; ++c) {
    const long double x = a.at(i, c), z = b.at(j, c);
    dot += x * z;
    square += (x - z) * (x - z);
    size += std::abs(x - z);
  }
  switch (f.kind) {
    case KernelKind::linear:
      return f.scale * dot;
    case KernelKind::poly:
      return f.scale * std::pow(f.gamma * dot + f.coef0, static_cast<long double>(f.degree));
    case KernelKind::sigmoid:
      return f.scale * std::tanh(f.gamma * dot + f.coef0);
    case KernelKind::rbf:
      return f.scale * std::exp(-f.gamma * square);
    case KernelKind::laplacian:
      return f.scale * std::exp(-f.gamma * size);
    case KernelKind::cosine:
      return f.scale * std::cos(f.gamma * dot + b.shift[j]);
  }
  return 0;
}

// Items are of length about one, so no value is much larger than `scale`, and no error than this.
constexpr double kTolerance = 2e-13;

Vector block(const KernelFunction& f, const KernelRows& a, const KernelRows& b, int threads = 1) {
  Vector out(a.rows() * b.rows(), std::nan(""));
  kernel_block(f, a, {0, a.rows()}, b, {0, b.rows()}, out.data(), b.rows(), Context(threads));
  return out;
}

Vector random_vector(int64_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Vector x(n);
  for (double& v : x) v = normal(random);
  return x;
}

// y = K x by strips of `height` rows, every n-th of which is held; none if that is 0.
template <class T>
Vector product(const KernelFunction& f, const KernelRows& a, int64_t height, std::size_t every,
               const Vector& x, int threads) {
  std::vector<bool> held((a.rows() + height - 1) / height);
  for (std::size_t s = 0; every > 0 && s < held.size(); s += every) held[s] = true;
  const KernelStrips<T> strips(f, a, height, held, Context(threads));
  Vector y(x.size(), std::nan(""));
  strips.product(x.data(), y.data(), Context(threads));
  return y;
}

// The same from strips that are given.
template <class T>
Vector given_strips(const KernelFunction& f, const KernelRows& a, int64_t height, const Vector& x,
                    int threads) {
  const int64_t n = a.rows();
  Vector y(x.size(), 0.0);
  for (int64_t first = 0; first < n; first += height) {
    const Range rows{first, std::min(first + height, n)};
    std::vector<T> strip(rows.size() * (n - first));
    kernel_block(f, a, rows, a, {first, n}, strip.data(), n - first, Context(1));
    symmetric_strip(strip.data(), n - first, rows, n, x.data(), y.data(), Context(threads),
                    a.loops());
  }
  return y;
}

}  // namespace

TEST(kernel_blocks_of_all_functions_and_storages) {
  // Around the sizes of panels, blocks, tiles (384 columns) and ranges of features (256).
  const int64_t shapes[][3] = {{1, 1, 1},   {3, 25, 0},   {8, 24, 7},   {9, 385, 13},
                               {17, 6, 46}, {2, 13, 257}, {20, 31, 513}};
  unsigned seed = 0;
  for (const auto& [n, m, d] : shapes) {
    const Items left(n, d, ++seed), right(m, d, ++seed);
    for (const KernelFunction& f : functions()) {
      Vector expected(n * m);
      for (int64_t i = 0; i < n * m; ++i) {
        expected[i] = static_cast<double>(truth(f, left, i / m, right, i % m));
      }
      for (const SimdLoops* loops : all_loops()) {
        for (const Storage one : kStorages) {
          for (const Storage other : kStorages) {
            const auto a = left.in(one, *loops), b = right.in(other, *loops);
            const Vector got = block(f, *a, *b);
            bool near = true;
            for (int64_t i = 0; i < n * m; ++i) {
              near &= std::abs(got[i] - expected[i]) <= kTolerance * f.scale;
            }
            CHECK(near);
          }
        }
      }
    }
  }
}

TEST(kernel_blocks_of_a_part_touch_nothing_else) {
  const Items left(1100, 5, 1), right(900, 5, 2);  // several tasks
  const KernelFunction f = kernel_function("rbf", 0.9, 0.0, 1, 1.0);
  for (const Storage storage : kStorages) {
    const auto a = left.in(storage), b = right.in(Storage::dense);
    const Vector all = block(f, *a, *b);
    const Range rows{3, 1096}, columns{7, 881};
    const int64_t stride = columns.size() + 2;
    for (const int threads : {1, 2, 5}) {
      Vector got(rows.size() * stride, -1.0);
      std::vector<float> rounded(got.size(), -1.0F);
      kernel_block(f, *a, rows, *b, columns, got.data(), stride, Context(threads));
      kernel_block(f, *a, rows, *b, columns, rounded.data(), stride, Context(threads));
      bool same = true, same_rounded = true;
      for (int64_t i = 0; i < rows.size(); ++i) {
        for (int64_t j = 0; j < stride; ++j) {
          const double expected =
              j < columns.size() ? all[(rows.first + i) * 900 + columns.first + j] : -1.0;
          same &= got[i * stride + j] == expected;
          same_rounded &= rounded[i * stride + j] == static_cast<float>(expected);
        }
      }
      CHECK(same);
      CHECK(same_rounded);
    }
  }
}

TEST(kernel_of_an_item_with_itself_is_exact) {
  const Items items(40, 300, 5);
  for (const char* name : {"rbf", "laplacian"}) {
    const KernelFunction f = kernel_function(name, 1e6, 0.0, 1, 1.5);
    for (const SimdLoops* loops : all_loops()) {
      for (const Storage storage : kStorages) {
        const auto a = items.in(storage, *loops);
        const Vector got = block(f, *a, *a);
        for (int64_t i = 0; i < 40; ++i) CHECK_EQ(got[i * 41], 1.5);
      }
    }
  }
}

TEST(kernel_sums_equal_sums_over_blocks) {
  unsigned seed = 100;
  for (const int64_t n : {0, 1, 7, 530}) {
    for (const int64_t m : {0, 1, 384, 1000}) {
      const Items left(n, 11, ++seed), right(m, 11, ++seed);
      const Vector coef = random_vector(m, ++seed);
      for (const KernelFunction& f : functions()) {
        const auto a = left.in(kStorages[seed % 3]), b = right.in(kStorages[seed / 3 % 3]);
        const Vector values = block(f, *a, *b);
        Vector got(n, std::nan(""));
        kernel_cross(f, *a, *b, coef.data(), got.data(), Context(1));
        bool near = true;
        for (int64_t i = 0; i < n; ++i) {
          long double sum = 0;
          for (int64_t j = 0; j < m; ++j)
            sum += values[i * m + j] * static_cast<long double>(coef[j]);
          near &= std::abs(got[i] - sum) <= 1e-12L;
        }
        CHECK(near);
        for (const int threads : {2, 5}) {
          Vector again(n);
          kernel_cross(f, *a, *b, coef.data(), again.data(), Context(threads));
          CHECK(again == got);
        }
      }
    }
  }
}

// Many tiles, so that sums are made in several rounds; and the sum of an item does not depend on
// the items that it is computed with.
TEST(kernel_sums_of_one_item_are_those_of_many) {
  const Items left(9000, 2, 1), right(26000, 2, 2);
  const Vector coef = random_vector(26000, 3);
  const KernelFunction f = kernel_function("linear", 1.0, 0.0, 1, 1.0);
  const auto a = left.in(Storage::dense), b = right.in(Storage::dense);
  Vector all(9000), expected(2, 0.0);
  kernel_cross(f, *a, *b, coef.data(), all.data(), Context(2));
  for (int64_t j = 0; j < 26000; ++j) {
    for (int c = 0; c < 2; ++c) expected[c] += coef[j] * right.at(j, c);
  }
  bool near = true;
  for (int64_t i = 0; i < 9000; ++i) {
    near &= std::abs(all[i] - left.at(i, 0) * expected[0] - left.at(i, 1) * expected[1]) <= 1e-9;
  }
  CHECK(near);
  for (const int64_t i : {0, 1, 511, 512, 8999}) {
    const KernelRows one(Strided<double>{left.dense.data() + i * left.stride, 1, 2, 2, 1});
    double sum = 0.0;
    kernel_cross(f, one, *b, coef.data(), &sum, Context(2));
    CHECK_EQ(sum, all[i]);
  }
}

TEST(kernel_strips_add_up_to_the_symmetric_product) {
  unsigned seed = 200;
  for (const int64_t n : {1, 8, 50, 403, 801}) {
    const int64_t d = n == 403 ? 300 : 9;
    const Items items(n, d, ++seed);
    const Vector x = random_vector(n, ++seed);
    for (const KernelFunction& f : functions()) {
      if (f.kind == KernelKind::cosine) continue;
      const SimdLoops& loops = *all_loops()[seed % all_loops().size()];
      const auto a = items.in(kStorages[++seed % 3], loops);
      const Vector values = block(f, *a, *a);
      for (const int64_t height : {int64_t{1}, int64_t{7}, int64_t{64}, int64_t{390}, kStripRows}) {
        if (height == 1 && n > 50) continue;
        for (const bool single : {false, true}) {
          const auto strips = [&](std::size_t every, int threads) {
            return single ? product<float>(f, *a, height, every, x, threads)
                          : product<double>(f, *a, height, every, x, threads);
          };
          const Vector got = strips(0, 1);
          bool near = true;
          for (int64_t i = 0; i < n; ++i) {
            long double sum = 0;
            for (int64_t j = 0; j < n; ++j) {
              const double k = values[i * n + j];
              sum += static_cast<long double>(single ? static_cast<float>(k) : k) * x[j];
            }
            // The lower triangle is that of the upper one, which may round to another float.
            near &= std::abs(got[i] - sum) <= (single && a->sparse() ? 1e-6L : 1e-12L);
          }
          CHECK(near);
          for (const int threads : {1, 2, 3, 5, 16}) {
            for (const std::size_t every : {0, 1, 2}) CHECK(strips(every, threads) == got);
          }
          CHECK((single ? given_strips<float>(f, *a, height, x, 2)
                        : given_strips<double>(f, *a, height, x, 2)) == got);
        }
      }
    }
  }
}

TEST(kernel_strips_of_several_bands) {
  // 1,700 items in strips of 8 have more tiles than a band.
  const Items items(1700, 3, 5);
  const Vector x = random_vector(1700, 6);
  const KernelFunction f = kernel_function("rbf", 0.5, 0.0, 1, 1.0);
  const auto a = items.in(Storage::dense);
  const Vector got = product<double>(f, *a, 8, 0, x, 1);
  const Vector values = block(f, *a, *a);
  bool near = true;
  for (int64_t i = 0; i < 1700; ++i) {
    long double sum = 0;
    for (int64_t j = 0; j < 1700; ++j) sum += static_cast<long double>(values[i * 1700 + j]) * x[j];
    near &= std::abs(got[i] - sum) <= 1e-11L;
  }
  CHECK(near);
  for (const int threads : {2, 3, 5, 16}) CHECK(product<double>(f, *a, 8, 3, x, threads) == got);
  CHECK(given_strips<double>(f, *a, 8, x, 3) == got);
}

// Items with a scale, in every layout, and the scaled copy that they stand for.
struct ScaledItems {
  int64_t rows, cols;
  Vector x, transposed, scaled, offset, factor, centre;
  std::vector<float> single, single_transposed;

  ScaledItems(int64_t n, int64_t d, bool with_factor, bool with_centre, unsigned seed)
      : rows(n), cols(d), x(random_vector(n * d, seed)), transposed(n * d), scaled(n * d) {
    for (double& v : x) v = static_cast<float>(v);  // the same numbers in both precisions
    single.assign(x.begin(), x.end());
    if (with_factor) {
      offset = random_vector(d, seed + 1);
      factor = random_vector(d, seed + 2);
      for (int64_t c = 0; c < d; c += 5) factor[c] = 0.0;
    }
    if (with_centre) centre = random_vector(d, seed + 3);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < d; ++c) {
        double v = x[r * d + c];
        transposed[c * n + r] = v;
        if (with_factor) v = 2.0 * ((0.5 * v - 0.5 * offset[c]) * factor[c]);
        if (with_centre) v = v - centre[c];
        scaled[r * d + c] = v;
      }
    }
    single_transposed.assign(transposed.begin(), transposed.end());
  }
  ItemScale scale() const {
    const auto data = [](const Vector& v) { return v.empty() ? nullptr : v.data(); };
    return {data(offset), data(factor), data(centre)};
  }
  std::vector<KernelRows::Data> layouts() const {
    return {Strided<double>{x.data(), rows, cols, cols, 1},
            Strided<double>{transposed.data(), rows, cols, 1, rows},
            Strided<float>{single.data(), rows, cols, cols, 1},
            Strided<float>{single_transposed.data(), rows, cols, 1, rows}};
  }
};

TEST(dense_items_are_scaled_on_their_way_into_a_tile) {
  unsigned seed = 0;
  for (const int64_t cols : {1, 17, 300}) {
    for (const bool with_factor : {false, true}) {
      for (const bool with_centre : {false, true}) {
        const ScaledItems left(70, cols, with_factor, with_centre, ++seed);
        const ScaledItems right(33, cols, with_factor, with_centre, seed);
        for (const SimdLoops* loops : all_loops()) {
          const auto plain = [&](const ScaledItems& items) {
            const Strided<double> data{items.scaled.data(), items.rows, cols, cols, 1};
            return std::make_unique<KernelRows>(data, ItemScale(), nullptr, *loops);
          };
          const auto a = plain(left), b = plain(right);
          for (const KernelFunction& f : functions()) {
            const Vector expected = block(f, *a, *b);
            for (std::size_t layout = 0; layout < 4; ++layout) {
              const KernelRows rows(left.layouts()[layout], left.scale(), nullptr, *loops);
              KernelRows columns(right.layouts()[3 - layout], right.scale(), nullptr, *loops);
              CHECK(block(f, rows, columns, 2) == expected);
              columns.keep_panels(Context(2));
              CHECK(block(f, rows, columns) == expected);
              CHECK(rows.squares() == a->squares());
            }
          }
        }
      }
    }
  }
}

TEST(sparse_items_are_scaled_on_their_way_into_a_tile) {
  const Items left(70, 40, 1), right(33, 40, 2);
  const Vector factor = random_vector(40, 3);
  ItemScale scale;
  scale.factor = factor.data();
  const auto rows_of = [&](const Items& items, int kind, const SimdLoops& loops) {
    const auto* start = items.start32.data();
    const auto* column = items.column32.data();
    static std::vector<std::vector<float>> kept;  // outlive the rows
    static std::vector<Vector> kept_scaled;
    KernelRows::Data data;
    if (kind == 0) {  // scaled beforehand
      Vector& value = kept_scaled.emplace_back();
      for (std::size_t e = 0; e < items.value.size(); ++e) {
        value.push_back(static_cast<float>(items.value[e]) * factor[items.column64[e]]);
      }
      data = SparseRows<double, int32_t>{start, column, value.data(), items.rows, items.cols};
      return std::make_unique<KernelRows>(data, ItemScale(), nullptr, loops);
    }
    std::vector<float>& single = kept.emplace_back(items.value.begin(), items.value.end());
    Vector& value = kept_scaled.emplace_back(single.begin(), single.end());
    const auto *start64 = items.start64.data(), *column64 = items.column64.data();
    if (kind == 1) {
      data = SparseRows<float, int32_t>{start, column, single.data(), items.rows, items.cols};
    } else if (kind == 2) {
      data = SparseRows<float, int64_t>{start64, column64, single.data(), items.rows, items.cols};
    } else if (kind == 3) {
      data = SparseRows<double, int32_t>{start, column, value.data(), items.rows, items.cols};
    } else {
      data = SparseRows<double, int64_t>{start64, column64, value.data(), items.rows, items.cols};
    }
    return std::make_unique<KernelRows>(data, scale, nullptr, loops);
  };
  for (const SimdLoops* loops : all_loops()) {
    const auto a = rows_of(left, 0, *loops), b = rows_of(right, 0, *loops);
    for (const KernelFunction& f : functions()) {
      const Vector expected = block(f, *a, *b);
      for (const int kind : {1, 2, 3, 4}) {
        const auto rows = rows_of(left, kind, *loops), columns = rows_of(right, 5 - kind, *loops);
        CHECK(block(f, *rows, *columns, 2) == expected);
        CHECK(rows->squares() == a->squares());
      }
    }
  }
}

TEST(kernel_matrices_refuse_what_does_not_fit) {
  const Items items(10, 4, 1), wide(10, 5, 2);
  const auto a = items.in(Storage::dense), b = wide.in(Storage::sparse32);
  const KernelFunction f = kernel_function("rbf", 1.0, 0.0, 1, 1.0);
  Vector x(10), y(10), out(100);
  const Context one(1);
  CHECK_THROWS(kernel_cross(f, *a, *b, x.data(), y.data(), one), std::invalid_argument);
  CHECK_THROWS(kernel_block(f, *a, {0, 10}, *b, {0, 10}, out.data(), 10, one),
               std::invalid_argument);
  for (const Range wrong : {Range{-1, 5}, Range{6, 5}, Range{0, 11}}) {
    CHECK_THROWS(kernel_block(f, *a, wrong, *a, {0, 10}, out.data(), 10, one),
                 std::invalid_argument);
    CHECK_THROWS(kernel_block(f, *a, {0, 10}, *a, wrong, out.data(), 10, one),
                 std::invalid_argument);
    CHECK_THROWS(symmetric_strip(out.data(), 10, wrong, 10, x.data(), y.data(), one),
                 std::invalid_argument);
  }
  const KernelFunction cosine = kernel_function("cosine", 1.0, 0.0, 1, 1.0);
  CHECK_THROWS(KernelStrips<double>(cosine, *a, 512, {true}, one), std::invalid_argument);
  for (const int64_t height : {-1, 0, 513}) {
    CHECK_THROWS(KernelStrips<double>(f, *a, height, {true}, one), std::invalid_argument);
  }
  CHECK_THROWS(KernelStrips<float>(f, *a, 5, {true}, one), std::invalid_argument);
  CHECK_THROWS(kernel_function("gauss", 1.0, 0.0, 1, 1.0), std::invalid_argument);
  CHECK_THROWS(kernel_function("rbf", -1.0, 0.0, 1, 1.0), std::invalid_argument);
  CHECK_THROWS(kernel_function("rbf", std::nan(""), 0.0, 1, 1.0), std::invalid_argument);
  CHECK_THROWS(kernel_function("poly", 1.0, 0.0, -1, 1.0), std::invalid_argument);

  const Vector value{1.0, 2.0};
  const std::vector<int32_t> start{0, 2};
  for (const std::vector<int32_t>& column : {std::vector<int32_t>{1, 0}, {1, 1}, {-1, 1}, {0, 3}}) {
    const SparseRows<double, int32_t> broken{start.data(), column.data(), value.data(), 1, 3};
    CHECK_THROWS(KernelRows(broken), std::invalid_argument);
  }
  const std::vector<int32_t> column{0, 2};
  const SparseRows<double, int32_t> fine{start.data(), column.data(), value.data(), 1, 3};
  const Vector ones(3, 1.0);
  CHECK_THROWS(KernelRows(fine, {ones.data(), ones.data(), nullptr}), std::invalid_argument);
  CHECK_THROWS(KernelRows(fine, {nullptr, nullptr, ones.data()}), std::invalid_argument);
}

TEST(kernel_products_can_be_interrupted_and_go_on) {
  const Items items(3000, 300, 1);
  const Vector x = random_vector(3000, 2);
  const KernelFunction f = kernel_function("rbf", 1.0, 0.0, 1, 1.0);
  for (const Storage storage : {Storage::dense, Storage::sparse32}) {
    const auto a = items.in(storage);
    const KernelStrips<double> strips(f, *a, 512, std::vector<bool>(6), Context(1));
    const Vector before = product<double>(f, *a, 512, 0, x, 2);
    Vector y(3000);
    for (const int threads : {1, 2}) {
      const auto forever = [&] {
        const Context context(threads, [] { return true; });
        for (;;) strips.product(x.data(), y.data(), context);
      };
      CHECK_THROWS(forever(), Interrupted);
    }
    strips.product(x.data(), y.data(), Context(2));
    CHECK(y == before);
  }
}
