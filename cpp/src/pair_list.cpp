#include "ranksvm/pair_list.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace ranksvm {
namespace {

// Partners and items of a piece, about: some tens of microseconds of work.
constexpr int64_t kPiece = int64_t{1} << 14;

// Sum of value(k) over [begin, end), halves first: its rounding errors grow with the logarithm of
// the number of terms.
template <class Value>
double sum_of(int64_t begin, int64_t end, const Value& value) {
  constexpr int64_t kSimple = 64;
  if (end - begin > kSimple) {
    const int64_t middle = begin + (end - begin) / 2;
    return sum_of(begin, middle, value) + sum_of(middle, end, value);
  }
  double sum = 0.0;
  for (int64_t k = begin; k < end; ++k) sum += value(k);
  return sum;
}

class PairListPlan final : public Plan {
 public:
  PairListPlan(std::shared_ptr<const PairList> list, const double* scores, double margin,
               const Context& context)
      : list_(std::move(list)),
        end_(2 * list_->size(), list_->memory()),
        above_(list_->size(), list_->memory()),
        below_(list_->size(), list_->memory()),
        partner_(2 * list_->pairs(), list_->memory()),
        weight_(list_->weighted() ? 2 * list_->pairs() : 0, list_->memory()) {
    std::vector<double> part(list_->pieces());
    list_->for_each_piece(context, [&](std::size_t p, int64_t first, int64_t last) {
      if (list_->weighted()) {
        find<true>(scores, margin, first, last);
      } else {
        find<false>(scores, margin, first, last);
      }
      part[p] = sum_of(first, last, [this](int64_t i) { return above_[i]; });
    });
    const auto pieces = static_cast<int64_t>(part.size());
    total_ = list_->factor() * sum_of(0, pieces, [&](int64_t p) { return part[p]; });
  }

  void imbalance(double* out, const Context& context) const override {
    list_->for_each_piece(context, [&](std::size_t, int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) out[i] = list_->factor() * (above_[i] - below_[i]);
    });
  }

  void counts(double* above, double* below, const Context& context) const override {
    list_->for_each_piece(context, [&](std::size_t, int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        above[i] = list_->factor() * above_[i];
        below[i] = list_->factor() * below_[i];
      }
    });
  }

  void laplacian(const double* x, double* out, const Context& context) const override {
    const double factor = list_->factor();
    list_->for_each_piece(context, [&](std::size_t, int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const auto difference = [&, own = x[i]](uint32_t j) { return own - x[j]; };
        out[i] = factor * (sum(2 * i, difference) + sum(2 * i + 1, difference));
      }
    });
  }

  void sums(const double* x, double* above, double* below, const Context& context) const override {
    const double factor = list_->factor();
    const auto payload = [x](uint32_t j) { return x[j]; };
    list_->for_each_piece(context, [&](std::size_t, int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        above[i] = factor * sum(2 * i, payload);
        below[i] = factor * sum(2 * i + 1, payload);
      }
    });
  }

 private:
  // Finds the violated partners of some items.
  template <bool weighted>
  void find(const double* scores, double margin, int64_t first, int64_t last) {
    double check = 0.0;  // NaN as soon as one score is not finite
    for (int64_t i = first; i < last; ++i) {
      const double own = scores[i];
      check += own * 0.0;
      above_[i] = keep<weighted>(2 * i, [=](uint32_t j) { return scores[j] - own < margin; });
      below_[i] = keep<weighted>(2 * i + 1, [=](uint32_t j) { return own - scores[j] < margin; });
    }
    if (check != 0.0) refuse_scores();
  }

  // Keeps the violated partners on one side of an item; returns the sum of their weights.
  template <bool weighted, class Violated>
  double keep(int64_t side, Violated violated) {
    const uint32_t* partner = list_->partner();
    const double* weight = list_->weight();
    const int64_t begin = list_->start(side), end = list_->start(side + 1);
    int64_t to = begin;
    for (int64_t k = begin; k < end; ++k) {  // without a branch: nobody can predict it
      partner_[to] = partner[k];
      if constexpr (weighted) weight_[to] = weight[k];
      to += violated(partner[k]);
    }
    end_[side] = to;
    if constexpr (!weighted) return static_cast<double>(to - begin);
    return sum_of(begin, to, [this](int64_t k) { return weight_[k]; });
  }

  // Weighted sum of values of the violated partners on one side of an item.
  template <class Value>
  double sum(int64_t side, const Value& value) const {
    const int64_t begin = list_->start(side), end = end_[side];
    if (!list_->weighted()) {
      return sum_of(begin, end, [&](int64_t k) { return value(partner_[k]); });
    }
    return sum_of(begin, end, [&](int64_t k) { return weight_[k] * value(partner_[k]); });
  }

  std::shared_ptr<const PairList> list_;
  Buffer<int64_t> end_;           // by side of an item: end of its violated partners
  Buffer<double> above_, below_;  // by item, without the factor
  Buffer<uint32_t> partner_;      // in the places of the list, violated ones first
  Buffer<double> weight_;
};

}  // namespace

PairList::PairList(const int64_t* better, const int64_t* worse, const double* weight,
                   int64_t n_pairs, int64_t n_items, const Context& context)
    : size_(n_items) {
  constexpr int64_t kMost = (int64_t{1} << 32) - 1;  // 32-bit row numbers
  if (n_items > kMost) {
    throw std::length_error("at most 2^32 - 1 items are supported, got " + std::to_string(n_items));
  }
  // Counting sort by side, stable: partners come in the order of the pairs. A block of
  // pairs takes a few milliseconds.
  constexpr int64_t kBlock = int64_t{1} << 18;
  const auto for_each_pair = [&](auto&& body) {
    for (int64_t begin = 0; begin < n_pairs; begin += kBlock) {
      context.check_interrupt();
      const int64_t end = std::min(n_pairs, begin + kBlock);
      for (int64_t p = begin; p < end; ++p) body(p);
    }
  };
  start_.assign(2 * n_items + 1, 0);
  for_each_pair([&](int64_t p) {
    const int64_t b = better[p], w = worse[p];
    if (b < 0 || b >= n_items || w < 0 || w >= n_items) {
      throw std::invalid_argument("a pair holds a number that is no row");
    }
    ++start_[2 * w + 1];
    ++start_[2 * b + 2];
  });
  for (int64_t side = 0; side < 2 * n_items; ++side) start_[side + 1] += start_[side];
  partner_ = Buffer<uint32_t>(2 * n_pairs, memory_);
  weight_ = Buffer<double>(weight == nullptr ? 0 : 2 * n_pairs, memory_);
  std::vector<int64_t> next(start_.begin(), start_.end() - 1);
  for_each_pair([&](int64_t p) {
    const int64_t above = next[2 * worse[p]]++, below = next[2 * better[p] + 1]++;
    partner_[above] = static_cast<uint32_t>(better[p]);
    partner_[below] = static_cast<uint32_t>(worse[p]);
    if (weight != nullptr) weight_[above] = weight_[below] = weight[p];
  });
  piece_.push_back(0);
  int64_t begin = 0;
  for (int64_t i = 0; i < n_items; ++i) {
    if (start_[2 * i + 2] + i - begin < kPiece && i + 1 < n_items) continue;
    piece_.push_back(i + 1);
    begin = start_[2 * i + 2] + i;
  }
}

int64_t count_contradictions(const PairList& list, const Context& context) {
  const uint32_t* partner = list.partner();
  // The last item that had this one for a better partner, and had it not for a worse one yet.
  std::vector<int64_t> above(list.size(), -1);
  int64_t both = 0;
  list.for_each_piece(context.one_thread(), [&](std::size_t, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t middle = list.start(2 * i + 1);
      for (int64_t k = list.start(2 * i); k < middle; ++k) above[partner[k]] = i;
      for (int64_t k = middle; k < list.start(2 * i + 2); ++k) {
        int64_t& mark = above[partner[k]];
        if (mark != i) continue;
        both += partner[k] > i;  // the other one sees it too
        mark = -1;
      }
    }
  });
  return both;
}

void connected_items(const PairList& list, int64_t* out, const Context& context) {
  for (int64_t i = 0; i < list.size(); ++i) out[i] = i;
  // Every item points to one before it, or is the first; ways are halved as they are walked.
  const auto first_of = [out](int64_t i) {
    while (out[i] != i) i = out[i] = out[out[i]];
    return i;
  };
  list.for_each_piece(context.one_thread(), [&](std::size_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t k = list.start(2 * i); k < list.start(2 * i + 1); ++k) {  // each pair once
        const int64_t a = first_of(i), b = first_of(list.partner()[k]);
        out[std::max(a, b)] = std::min(a, b);
      }
    }
  });
  for (int64_t i = 0; i < list.size(); ++i) out[i] = out[out[i]];  // those before it are done
}

std::unique_ptr<Plan> make_pair_list_plan(std::shared_ptr<const PairList> list,
                                          const double* scores, double margin,
                                          const Context& context) {
  return std::make_unique<PairListPlan>(std::move(list), scores, margin, context);
}

}  // namespace ranksvm
