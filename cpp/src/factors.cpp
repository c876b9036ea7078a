#include "ranksvm/factors.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ranksvm/buffer.hpp"

namespace ranksvm {
namespace {

// Running sums on the way through a query: over all levels that are done, and over the items of the
// present level so far.
struct Running {
  explicit Running(unsigned width) : done(width, 0.0), level(width, 0.0) {}

  void close_level() {
    for (std::size_t c = 0; c < done.size(); ++c) done[c] += level[c];
    std::fill(level.begin(), level.end(), 0.0);
    closed = true;
  }
  // What a chunk that was summed on its own adds.
  void append(const Running& next) {
    if (next.closed) {
      close_level();
      for (std::size_t c = 0; c < done.size(); ++c) done[c] += next.done[c];
      level = next.level;
    } else {
      for (std::size_t c = 0; c < level.size(); ++c) level[c] += next.level[c];
    }
  }

  std::vector<double> done, level;
  bool closed = false;  // whether a level ended here
};

enum class Way { up, down };

// Goes through the items of a query from its worst to its best (up) or back. `add(position, sum)`
// adds the item at a position of the query to a sum of `width` numbers; `use(position, sum)` gets
// the sum over all items of the levels before. Long queries are cut into chunks whose sums are
// known before they are entered.
template <Way way, class Add, class Use>
void sweep(const Order& order, const Query& query, unsigned width, Add&& add, Use&& use,
           const Context& context) {
  const uint32_t* level = order.level() + query.begin;
  const uint32_t size = query.size;
  auto position_at = [&](uint32_t step) { return way == Way::up ? step : size - 1 - step; };
  auto walk = [&](uint32_t chunk, Running& sums, auto&& visit) {
    const uint32_t end = std::min<uint64_t>(size, (uint64_t{chunk} + 1) * kChunk);
    for (uint32_t step = chunk * kChunk; step < end; ++step) {
      const uint32_t at = position_at(step);
      if (step > 0 && level[at] != level[position_at(step - 1)]) sums.close_level();
      visit(at, sums.done.data());
      add(at, sums.level.data());
    }
  };
  const uint32_t chunks = (size + kChunk - 1) / kChunk;
  std::vector<Running> before(chunks, Running(width));
  if (chunks > 1) {
    std::vector<Running> inside(chunks, Running(width));
    context.parallel_for(chunks - 1, [&](std::size_t chunk, const Context&) {
      walk(static_cast<uint32_t>(chunk), inside[chunk], [](uint32_t, const double*) {});
    });
    for (uint32_t chunk = 1; chunk < chunks; ++chunk) {
      before[chunk] = before[chunk - 1];
      before[chunk].append(inside[chunk - 1]);
    }
  }
  context.parallel_for(chunks, [&](std::size_t chunk, const Context&) {
    walk(static_cast<uint32_t>(chunk), before[chunk], use);
  });
}

// Calls body(position) for the items of a query.
template <class Body>
void for_each_position(uint32_t size, const Context& context, Body&& body) {
  context.parallel_for((size + kChunk - 1) / kChunk, [&](std::size_t chunk, const Context&) {
    const auto end = std::min<uint64_t>(size, (uint64_t{chunk} + 1) * kChunk);
    for (auto at = static_cast<uint32_t>(chunk * kChunk); at < end; ++at) body(at);
  });
}

// Four sums side by side: the order does not depend on the compiler.
double inner_product(const double* a, const double* b, unsigned k) {
  double sum[4] = {0.0, 0.0, 0.0, 0.0};
  unsigned c = 0;
  for (; c + 4 <= k; c += 4) {
    for (unsigned lane = 0; lane < 4; ++lane) sum[lane] += a[c + lane] * b[c + lane];
  }
  for (; c < k; ++c) sum[c % 4] += a[c] * b[c];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

void factor_coefficients(const Order& order, const double* v, unsigned k, double* c,
                         const Context& context) {
  Buffer<double> by_position(order.size(), order.memory());  // c by position
  order.for_each_query(context, [&](uint32_t q, const Context& inner) {
    const Query& query = order.queries()[q];
    const double* factors = v + query.begin * k;
    double* mine = by_position.data() + query.begin;
    auto add = [&](uint32_t position, double* sum) {
      for (unsigned f = 0; f < k; ++f) sum[f] += factors[std::size_t{position} * k + f];
    };
    sweep<Way::up>(
        order, query, k, add,
        [&](uint32_t position, const double* worse) {
          mine[position] = inner_product(factors + std::size_t{position} * k, worse, k);
        },
        inner);
    sweep<Way::down>(
        order, query, k, add,
        [&](uint32_t position, const double* better) {
          mine[position] -= inner_product(factors + std::size_t{position} * k, better, k);
        },
        inner);
    const uint32_t* row = order.row() + query.begin;
    for_each_position(query.size, inner,
                      [&](uint32_t position) { c[row[position]] = mine[position]; });
  });
}

void factor_gradient(const Order& order, const double* v, const double* t, unsigned k, double* out,
                     const Context& context) {
  Buffer<double> by_position(order.size(), order.memory());  // t by position, centred
  order.for_each_query(context, [&](uint32_t q, const Context& inner) {
    const Query& query = order.queries()[q];
    const double* factors = v + query.begin * k;
    double* slope = out + query.begin * k;
    double* shifted = by_position.data() + query.begin;
    const uint32_t* row = order.row() + query.begin;
    const double centre = order.centre(q, t);
    for_each_position(query.size, inner, [&](uint32_t at) { shifted[at] = t[row[at]] - centre; });
    // Sums of v, and behind them those of t v.
    auto add = [&](uint32_t position, double* sum) {
      const double* mine = factors + std::size_t{position} * k;
      for (unsigned f = 0; f < k; ++f) sum[f] += mine[f];
      for (unsigned f = 0; f < k; ++f) sum[k + f] += shifted[position] * mine[f];
    };
    sweep<Way::up>(
        order, query, 2 * k, add,
        [&](uint32_t position, const double* worse) {
          double* mine = slope + std::size_t{position} * k;
          for (unsigned f = 0; f < k; ++f) mine[f] = shifted[position] * worse[f] - worse[k + f];
        },
        inner);
    sweep<Way::down>(
        order, query, 2 * k, add,
        [&](uint32_t position, const double* better) {
          double* mine = slope + std::size_t{position} * k;
          for (unsigned f = 0; f < k; ++f) mine[f] -= shifted[position] * better[f] - better[k + f];
        },
        inner);
  });
}

}  // namespace ranksvm
