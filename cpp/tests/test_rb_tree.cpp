// The tree against a sorted list.
#include <cstdint>
#include <map>
#include <random>

#include "check.hpp"
#include "ranksvm/rb_tree.hpp"

namespace {

using Tree = ranksvm::RedBlackTree<2>;

void against_map(unsigned seed, uint32_t keys, int inserts, bool ascending) {
  std::mt19937 random(seed);
  Tree tree;
  std::map<uint32_t, Tree::Total> truth;
  for (int i = 0; i < inserts; ++i) {
    const uint32_t key = ascending ? static_cast<uint32_t>(i) % keys : random() % keys;
    const Tree::Payload payload{1.0, static_cast<double>(random() % 1000)};  // sums are exact
    tree.insert(key, payload);
    Tree::Total& t = truth[key];
    ++t.size;
    t.sum[0] += payload[0];
    t.sum[1] += payload[1];
    if (i % 37 != 0 && i + 1 != inserts) continue;
    CHECK(tree.valid());
    CHECK_EQ(tree.size(), static_cast<uint64_t>(i + 1));
    CHECK_EQ(tree.distinct(), truth.size());
    const uint32_t probe = random() % (keys + 2);
    Tree::Total smaller, larger;
    for (const auto& [k, total] : truth) {
      if (k == probe) continue;
      Tree::Total& side = k < probe ? smaller : larger;
      side.size += total.size;
      side.sum[0] += total.sum[0];
      side.sum[1] += total.sum[1];
    }
    CHECK_EQ(tree.smaller(probe).size, smaller.size);
    CHECK_EQ(tree.larger(probe).size, larger.size);
    CHECK_EQ(tree.smaller(probe).sum[1], smaller.sum[1]);
    CHECK_EQ(tree.larger(probe).sum[1], larger.sum[1]);
  }
}

}  // namespace

TEST(tree_matches_sorted_list_random) { against_map(1, 5000, 3000, false); }
TEST(tree_matches_sorted_list_duplicates) { against_map(2, 7, 2000, false); }
TEST(tree_matches_sorted_list_ascending) { against_map(3, 4000, 3000, true); }
TEST(tree_empty) {
  Tree tree;
  CHECK(tree.valid());
  CHECK_EQ(tree.larger(0).size, 0U);
  CHECK_EQ(tree.smaller(UINT32_MAX).size, 0U);
  tree.insert(UINT32_MAX, {1.0, 1.0});
  tree.insert(0, {1.0, 2.0});
  CHECK(tree.valid());
  CHECK_EQ(tree.larger(0).size, 1U);
  tree.clear();
  CHECK_EQ(tree.size(), 0U);
}
