// The inner loops of every instruction set against plain ones, and all sets bit for bit against
// each other.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "ranksvm/plan.hpp"
#include "ranksvm/simd.hpp"

namespace {

using ranksvm::Context;
using ranksvm::CountSweep;
using ranksvm::kFan;
using ranksvm::kLanes;
using ranksvm::kMaskItems;
using ranksvm::mask_words;
using ranksvm::NetRecord;
using ranksvm::PairCount;
using ranksvm::Round;
using ranksvm::SimdLoops;
using ranksvm::SplitRecord;
using ranksvm::SumRecord;
using ranksvm::SumSweep;

std::vector<const SimdLoops*> all_loops() {
  std::vector<const SimdLoops*> all;
  for (const char* name : {"base", "avx2", "avx512"}) {
    if (const SimdLoops* loops = ranksvm::simd_loops_named(name)) all.push_back(loops);
  }
  return all;
}

bool same(const std::vector<PairCount>& a, const std::vector<PairCount>& b) {
  bool equal = a.size() == b.size();
  for (std::size_t i = 0; equal && i < a.size(); ++i) {
    equal = a[i].above == b[i].above && a[i].below == b[i].below;
  }
  return equal;
}

// Scores of several kinds; some differ by the margins exactly.
double draw_score(int kind, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  switch (kind % 5) {
    case 0:
      return normal(random);
    case 1:
      return static_cast<double>(random() % 9) / 4 - 1;
    case 2:
      return 0.25;
    case 3:
      return random() % 3 == 0 ? (random() % 2 == 0 ? 1.7e308 : -1.7e308) : normal(random);
    default:
      return 1e-300 * normal(random);
  }
}

}  // namespace

TEST(the_best_instruction_set_is_among_the_known_ones) {
  const std::string best = ranksvm::simd_loops().name;
  REQUIRE(!all_loops().empty());
  CHECK_EQ(best, std::string(all_loops().back()->name));
  CHECK_EQ(std::string(ranksvm::simd_loops_named("base")->name), std::string("base"));
  CHECK(ranksvm::simd_loops_named("sse9") == nullptr);
  CHECK(ranksvm::simd_loops_named("") == nullptr);
}

TEST(leaf_masks_against_all_pairs) {
  std::mt19937_64 random(1);
  for (unsigned n = 1; n <= kMaskItems; ++n) {
    const unsigned words = mask_words(n);
    for (int round = 0; round < 10; ++round) {
      // Exactly n elements each, so that the sanitizer sees a step too far.
      std::vector<double> score(n);
      std::vector<uint32_t> level(n);
      uint32_t next = 0;
      for (unsigned i = 0; i < n; ++i) {
        score[i] = draw_score(round, random);
        if (i > 0 && random() % (1 + static_cast<unsigned>(round) % 4) == 0) ++next;
        level[i] = next;
      }
      const double margin = round % 2 == 0 ? 1.0 : 0.5;
      std::vector<uint64_t> expected(n * words, 0);
      std::vector<PairCount> pairs(n, PairCount{3, 5});
      for (unsigned i = 0; i < n; ++i) {
        for (unsigned j = 0; j < n; ++j) {
          const bool above = level[j] > level[i] && score[j] - score[i] < margin;
          const bool below = level[j] < level[i] && score[i] - score[j] < margin;
          if (above || below) expected[i * words + j / 64] |= uint64_t{1} << (j % 64);
          pairs[i].above += above;
          pairs[i].below += below;
        }
      }
      for (const SimdLoops* loops : all_loops()) {
        std::vector<uint64_t> mask(n * words, 0xdeadbeef);
        std::vector<PairCount> count(n, PairCount{3, 5});
        loops->leaf_masks(score.data(), level.data(), n, margin, mask.data(), count.data());
        CHECK(mask == expected);
        CHECK(same(count, pairs));
      }
    }
  }
}

TEST(leaf_sums_against_all_bits) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  for (unsigned n = 1; n <= kMaskItems; ++n) {
    const unsigned words = mask_words(n);
    for (int round = 0; round < 6; ++round) {
      std::vector<double> value(n), expected(n, 0.0);
      std::vector<uint64_t> mask(n * words, 0);
      for (unsigned j = 0; j < n; ++j) {
        value[j] = normal(random) * std::pow(10.0, static_cast<double>(random() % 20));
        for (unsigned i = 0; i < n; ++i) {
          const bool on = round == 0 ? false : round == 1 ? true : random() % 4 == 0;
          if (on) mask[j * words + i / 64] |= uint64_t{1} << (i % 64);
          if (on) expected[i] += value[j];
        }
      }
      for (const SimdLoops* loops : all_loops()) {
        std::vector<double> sum(n, std::nan(""));
        loops->leaf_sums(value.data(), mask.data(), n, sum.data());
        CHECK(sum == expected);  // added in the same order: the same bits
      }
    }
  }
}

TEST(leaf_split_against_all_bits) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal;
  for (unsigned n = 1; n <= kMaskItems; ++n) {
    const unsigned words = mask_words(n);
    for (int round = 0; round < 6; ++round) {
      std::vector<double> value[2], above[2], below[2];
      std::vector<uint64_t> mask(n * words, 0);
      for (unsigned k = 0; k < 2; ++k) {
        value[k].resize(n);
        above[k].assign(n, 0.0);
        below[k].assign(n, 0.0);
        for (double& v : value[k]) {
          v = normal(random) * std::pow(10.0, static_cast<double>(random() % 20));
        }
      }
      for (unsigned j = 0; j < n; ++j) {
        for (unsigned i = 0; i < n; ++i) {
          const bool on = round == 0 ? false : round == 1 ? true : random() % 4 == 0;
          if (!on) continue;
          mask[j * words + i / 64] |= uint64_t{1} << (i % 64);
          for (unsigned k = 0; k < 2; ++k) {
            if (i < j) above[k][i] += value[k][j];
            if (i > j) below[k][i] += value[k][j];
          }
        }
      }
      for (const SimdLoops* loops : all_loops()) {
        for (const unsigned payloads : {1U, 2U}) {
          std::vector<double> got[4];
          for (auto& one : got) one.assign(kMaskItems, std::nan(""));
          const double* from[] = {value[0].data(), value[1].data()};
          double* const to_above[] = {got[0].data(), got[1].data()};
          double* const to_below[] = {got[2].data(), got[3].data()};
          (payloads == 1 ? loops->leaf_split : loops->leaf_split_two)(from, mask.data(), n,
                                                                      to_above, to_below);
          for (auto& one : got) one.resize(n);
          for (unsigned k = 0; k < payloads; ++k) {  // added in the same order: the same bits
            CHECK(got[k] == above[k]);
            CHECK(got[2 + k] == below[k]);
          }
        }
      }
    }
  }
}

TEST(net_counts_against_plain_loops) {
  std::mt19937_64 random(11);
  for (const int64_t rows : {1, 2, 3, 4, 5, 41, 130}) {
    for (const int64_t width : {8, 24, 48}) {
      for (int kind = 0; kind < 5; ++kind) {
        std::vector<double> x(static_cast<std::size_t>(rows * width));
        for (double& value : x) value = draw_score(kind, random);
        x[0] = -0.0, x.back() = 0.0;
        std::vector<int64_t> expected(x.size());
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < rows; ++j) {
            for (int64_t c = 0; c < width; ++c) {
              const double own = x[i * width + c], other = x[j * width + c];
              expected[i * width + c] += (other < own ? 1 : 0) - (other > own ? 1 : 0);
            }
          }
        }
        for (const SimdLoops* loops : all_loops()) {
          std::vector<int64_t> net(x.size(), -1000);
          loops->net_counts(x.data(), rows, width, net.data());
          CHECK(net == expected);
        }
      }
    }
  }
}

TEST(deviations_against_plain_loops) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  const std::vector<double> weight{0.3, 0.0, 2.5};
  for (const std::size_t n : {0U, 1U, 7U, 20U, 46U}) {
    const std::size_t rows = weight.size(), stride = n + 1, width = n + 2;
    std::vector<double> x(rows * stride), mean(n), off(rows * width), weighted(rows * width);
    std::vector<float> single(rows * stride);
    for (double& v : x) v = normal(random);
    for (float& v : single) v = static_cast<float>(normal(random));
    for (double& v : mean) v = normal(random);
    const auto is_right = [&](const auto& from) {
      bool same = true;
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < n; ++c) {
          const double expected = static_cast<double>(from[r * stride + c]) - mean[c];
          same &= off[r * width + c] == expected;
          same &= weighted[r * width + c] == weight[r] * expected;
        }
      }
      return same;
    };
    for (const SimdLoops* loops : all_loops()) {
      loops->deviations_double(x.data(), rows, n, stride, mean.data(), weight.data(), width,
                               off.data(), weighted.data());
      CHECK(is_right(x));
      loops->deviations_float(single.data(), rows, n, stride, mean.data(), weight.data(), width,
                              off.data(), weighted.data());
      CHECK(is_right(single));
    }
  }
}

TEST(add_gram_against_plain_loops) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (const unsigned width : {8U, 16U, 48U}) {
    for (const unsigned rows : {0U, 1U, 5U, 64U}) {
      std::vector<double> a(rows * width), b(rows * width);
      for (double& v : a) v = normal(random);
      for (double& v : b) v = normal(random);
      std::vector<std::vector<double>> grams;
      for (const SimdLoops* loops : all_loops()) {
        std::vector<double> gram(width * width, 0.5);
        loops->add_gram(a.data(), b.data(), rows, width, gram.data());
        bool near = true;
        for (unsigned i = 0; i < width; ++i) {
          for (unsigned j = i; j < width; ++j) {
            double expected = 0.5;
            for (unsigned r = 0; r < rows; ++r) expected += a[r * width + i] * b[r * width + j];
            near &= std::abs(gram[i * width + j] - expected) <= 1e-12;
          }
        }
        CHECK(near);
        grams.push_back(gram);
      }
      for (const auto& gram : grams) CHECK(gram == grams[0]);
    }
  }
}

namespace {

// One node of a query: items in relevance order cut into children, and their order by score.
struct NodeCase {
  uint32_t n, node;
  unsigned children;
  std::vector<uint32_t> child_begin = std::vector<uint32_t>(kLanes);
  std::vector<uint8_t> child_inner = std::vector<uint8_t>(kLanes);
  std::vector<uint8_t> digit;              // score order
  std::vector<uint32_t> position, hi, lo;  // score order

  NodeCase(uint32_t size, unsigned fan, int kind, unsigned seed) : n(size), node(seed % 7) {
    std::mt19937_64 random(seed);
    children = std::min(fan, n);
    // Ends of the children: `children` - 1 different cuts.
    std::vector<uint32_t> cuts(n - 1);
    std::iota(cuts.begin(), cuts.end(), 1U);
    std::shuffle(cuts.begin(), cuts.end(), random);
    cuts.resize(children - 1);
    cuts.push_back(0);
    std::sort(cuts.begin(), cuts.end());
    cuts.push_back(n);
    std::vector<uint8_t> digit_at(n);
    for (unsigned c = 0; c < kLanes; ++c) {
      child_begin[c] = node + (c < children ? cuts[c] : n);
      child_inner[c] = c < children && random() % 2 == 0;
      for (uint32_t i = c < children ? cuts[c] : n; i < (c < children ? cuts[c + 1] : n); ++i) {
        digit_at[i] = static_cast<uint8_t>(c);
      }
    }
    std::vector<double> score(n), ascending(n);
    for (double& s : score) s = draw_score(kind, random);
    std::vector<uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return score[a] < score[b]; });
    digit.resize(n);
    position.resize(n);
    for (uint32_t h = 0; h < n; ++h) {
      ascending[h] = score[order[h]];
      position[h] = node + order[h];
      digit[h] = digit_at[order[h]];
    }
    hi.resize(n);
    lo.resize(n);
    ranksvm::margin_ranks(ascending.data(), n, 0.5, hi.data(), lo.data(), Context(1));
  }

  // Rows of running sums before item `first`.
  template <class T>
  std::vector<T> start(uint32_t first, const std::vector<T>& value) const {
    std::vector<T> sum(kLanes, T{});
    for (uint32_t h = 0; h < first; ++h) {
      for (unsigned c = 0; c <= digit[h]; ++c) sum[c] += value[h];
    }
    return sum;
  }
};

// The pieces that [0, n) is swept in, and in which rounds.
struct Way {
  std::vector<uint32_t> cuts;
  bool rounds;  // look-ups of all pieces first, last piece first, then all moves
};

std::vector<Way> ways(uint32_t n) {
  std::vector<Way> all{{{0, n}, false}, {{0, n}, true}};
  if (n >= 4) {
    all.push_back({{0, n / 3, n / 2, n}, false});
    all.push_back({{0, n / 3, n / 2, n}, true});
  }
  if (n > 200) all.push_back({{0, 128, 129, 200, n}, true});
  return all;
}

template <class Sweep>
void run_way(const Way& way, Sweep sweep) {
  const std::size_t pieces = way.cuts.size() - 1;
  const auto piece = [&](std::size_t p, Round round) {
    sweep(way.cuts[p], way.cuts[p + 1], round);
  };
  if (!way.rounds) {
    for (std::size_t p = 0; p < pieces; ++p) piece(p, Round::all);
    return;
  }
  for (const Round round : {Round::look_up, Round::move}) {
    for (std::size_t p = pieces; p-- > 0;) piece(p, round);
  }
}

struct CountResult {
  std::vector<uint32_t> target, position_to, hi_to, lo_to;
  std::vector<PairCount> count_to, count_final;
};

// Places that nothing is written to.
constexpr uint32_t kUntouched = 0xabababab;

CountResult empty_result(const NodeCase& c) {
  const std::size_t end = c.node + c.n;
  const std::vector<uint32_t> blank(end, kUntouched);
  const std::vector<PairCount> pairs(end, PairCount{kUntouched, kUntouched});
  return {std::vector<uint32_t>(c.n, kUntouched), blank, blank, blank, pairs, pairs};
}

CountResult naive_counts(const NodeCase& c, const std::vector<PairCount>& before) {
  CountResult r = empty_result(c);
  for (uint32_t p = 0; p < c.n; ++p) {
    const uint8_t d = c.digit[p];
    PairCount count = before[p];
    uint32_t rank = 0, hi = 0, lo = 0;
    for (uint32_t h = 0; h < c.n; ++h) {
      count.above += h < c.hi[p] && c.digit[h] > d;
      count.below += h >= c.lo[p] && c.digit[h] < d;
      rank += h < p && c.digit[h] == d;
      hi += h < c.hi[p] && c.digit[h] == d;
      lo += h < c.lo[p] && c.digit[h] == d;
    }
    if (c.child_inner[d]) {
      const uint32_t to = r.target[p] = c.child_begin[d] + rank;
      r.position_to[to] = c.position[p];
      r.hi_to[to] = hi;
      r.lo_to[to] = lo;
      r.count_to[to] = count;
    } else {
      r.target[p] = c.position[p];
      r.count_final[c.position[p]] = count;
    }
  }
  return r;
}

void check_count_sweep(const NodeCase& c) {
  std::vector<PairCount> before(c.n);
  for (uint32_t p = 0; p < c.n; ++p) before[p] = {p % 3, p % 5};
  const CountResult expected = naive_counts(c, before);
  const std::vector<uint32_t> ones(c.n, 1);
  for (const SimdLoops* loops : all_loops()) {
    for (const Way& way : ways(c.n)) {
      CountResult r = empty_result(c);
      std::vector<PairCount> count = before;
      std::vector<uint32_t> child_lo(c.n);
      std::vector<ranksvm::UpperCount> upper(c.n);
      run_way(way, [&](uint32_t first, uint32_t last, Round round) {
        const std::vector<uint32_t> start = c.start(first, ones);
        CountSweep s{};
        s.n = c.n;
        s.first = first;
        s.last = last;
        s.node = c.node;
        s.start = start.data();
        s.child_begin = c.child_begin.data();
        s.child_inner = c.child_inner.data();
        s.digit = c.digit.data();
        s.position = c.position.data();
        s.hi = c.hi.data();
        s.lo = c.lo.data();
        s.count = count.data();
        s.target = r.target.data();
        s.child_lo = child_lo.data();
        s.upper = upper.data();
        s.position_to = r.position_to.data();
        s.hi_to = r.hi_to.data();
        s.lo_to = r.lo_to.data();
        s.count_to = r.count_to.data();
        s.count_final = r.count_final.data();
        loops->count_sweep(s, round);
      });
      CHECK(r.target == expected.target);
      CHECK(r.position_to == expected.position_to);
      CHECK(r.hi_to == expected.hi_to);
      CHECK(r.lo_to == expected.lo_to);
      CHECK(same(r.count_to, expected.count_to));
      CHECK(same(r.count_final, expected.count_final));
    }
  }
}

double above(const SumRecord& r) { return r.sum; }
double below(const SumRecord&) { return 0.0; }
double above(const SplitRecord& r) { return r.above; }
double below(const SplitRecord& r) { return r.below; }
double above(const NetRecord& r) { return r.net[0]; }
double below(const NetRecord& r) { return r.net[1]; }
void sweep(const SimdLoops& k, const SumSweep<SumRecord>& s, Round r) { k.sum_sweep(s, r); }
void sweep(const SimdLoops& k, const SumSweep<SplitRecord>& s, Round r) { k.split_sweep(s, r); }
void sweep(const SimdLoops& k, const SumSweep<NetRecord>& s, Round r) { k.net_sweep(s, r); }

template <class Rec>
void check_sum_sweep(const NodeCase& c, bool whole_numbers) {
  constexpr bool kSplit = std::is_same_v<Rec, SplitRecord>, kNet = std::is_same_v<Rec, NetRecord>;
  std::mt19937_64 random(c.n);
  std::normal_distribution<double> normal;
  std::vector<double> value(c.n);
  for (double& v : value) {
    v = whole_numbers ? static_cast<double>(random() % 1000) - 500 : normal(random);
  }
  std::vector<double> other(value.rbegin(), value.rend());  // the second payload, if there is one
  // Where items go does not matter to the sums: backwards.
  std::vector<uint32_t> target(c.n);
  for (uint32_t p = 0; p < c.n; ++p) target[p] = c.n - 1 - p;

  std::vector<double> expected_above(c.n), expected_below(c.n);
  for (uint32_t p = 0; p < c.n; ++p) {
    double up = 0.0, down = 0.0, net = 0.0;
    for (uint32_t h = 0; h < c.n; ++h) {
      if (h < c.hi[p] && c.digit[h] > c.digit[p]) up += value[h], net += other[h];
      if (h < c.lo[p] && c.digit[h] < c.digit[p]) {  // the shared part is left out
        down -= value[h];
        net += other[h];
      }
    }
    if (kNet) {
      expected_above[p] = 1.0 + up - down;
      expected_below[p] = 2.0 + net;
      continue;
    }
    expected_above[p] = 1.0 + up + (kSplit ? 0.0 : down);
    expected_below[p] = kSplit ? 2.0 + down : 0.0;
  }
  const auto starts = [&](uint32_t first) {
    std::vector<double> start = c.start(first, value);
    const std::vector<double> second = c.start(first, other);
    if (kNet) start.insert(start.end(), second.begin(), second.end());
    return start;
  };
  const std::vector<double> all = starts(c.n);

  std::vector<std::vector<double>> results;
  for (const SimdLoops* loops : all_loops()) {
    for (const Way& way : ways(c.n)) {
      std::vector<Rec> in(c.n), out(c.n);
      for (uint32_t p = 0; p < c.n; ++p) {
        if constexpr (kNet) {
          in[p] = {{value[p], other[p]}, {1.0, 2.0}};
        } else if constexpr (kSplit) {
          in[p] = {{value[p]}, 1.0, 2.0};
        } else {
          in[p] = {{value[p]}, 1.0};
        }
      }
      std::vector<double> end(all.size(), std::nan("")), upper(Rec::kPayloads * c.n);
      run_way(way, [&](uint32_t first, uint32_t last, Round round) {
        const std::vector<double> start = starts(first);
        SumSweep<Rec> s{};
        s.n = c.n;
        s.first = first;
        s.last = last;
        s.start = start.data();
        s.digit = c.digit.data();
        s.hi = c.hi.data();
        s.lo = c.lo.data();
        s.target = target.data();
        s.in = in.data();
        s.out = out.data();
        s.upper = upper.data();
        std::vector<double> piece_end(all.size());
        s.end = piece_end.data();
        sweep(*loops, s, round);
        if (last == c.n && round != Round::move) end = piece_end;
      });
      std::vector<double> result;
      bool near = true;
      const double tolerance = whole_numbers ? 0.0 : 1e-12 * c.n;
      for (uint32_t p = 0; p < c.n; ++p) {
        const Rec& r = out[target[p]];
        near &= r.value[0] == value[p];
        near &= std::abs(above(r) - expected_above[p]) <= tolerance;
        near &= std::abs(below(r) - expected_below[p]) <= tolerance;
        result.push_back(above(r));
        result.push_back(below(r));
      }
      for (std::size_t lane = 0; lane < all.size(); ++lane) {
        near &= std::abs(end[lane] - all[lane]) <= tolerance;
      }
      CHECK(near);
      results.push_back(result);
    }
  }
  const std::size_t n_ways = ways(c.n).size();
  for (std::size_t i = n_ways; i < results.size(); ++i) CHECK(results[i] == results[i % n_ways]);
}

template <class Check>
void over_nodes(Check check) {
  unsigned seed = 1;
  // Around the window of 128 rows.
  for (const uint32_t n : {1U, 2U, 3U, 16U, 65U, 127U, 128U, 129U, 255U, 256U, 257U, 700U}) {
    for (const unsigned fan : {1U, 2U, 8U, kFan}) {
      for (int kind = 0; kind < 5; ++kind) check(NodeCase(n, fan, kind, ++seed));
    }
  }
}

}  // namespace

TEST(count_sweep_against_all_pairs) { over_nodes(check_count_sweep); }
TEST(sum_sweep_of_whole_numbers_is_exact) {
  over_nodes([](const NodeCase& c) { check_sum_sweep<SumRecord>(c, true); });
}
TEST(sum_sweep_gives_the_same_bits_on_every_instruction_set) {
  over_nodes([](const NodeCase& c) { check_sum_sweep<SumRecord>(c, false); });
}
TEST(split_sweep_of_whole_numbers_is_exact) {
  over_nodes([](const NodeCase& c) { check_sum_sweep<SplitRecord>(c, true); });
}
TEST(split_sweep_gives_the_same_bits_on_every_instruction_set) {
  over_nodes([](const NodeCase& c) { check_sum_sweep<SplitRecord>(c, false); });
}
TEST(net_sweep_of_whole_numbers_is_exact) {
  over_nodes([](const NodeCase& c) { check_sum_sweep<NetRecord>(c, true); });
}
TEST(net_sweep_gives_the_same_bits_on_every_instruction_set) {
  over_nodes([](const NodeCase& c) { check_sum_sweep<NetRecord>(c, false); });
}
