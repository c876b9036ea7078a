// Stable argsort of doubles.
#pragma once

#include <cstdint>
#include <memory>

#include "ranksvm/buffer.hpp"
#include "ranksvm/parallel.hpp"

namespace ranksvm {

// order[k] is the index of the k-th smallest key, equal keys in index order; sorted[k] is that key.
// Keys are finite.
void argsort(const double* key, uint32_t n, uint32_t* order, double* sorted,
             const std::shared_ptr<Memory>& memory, const Context& context);

}  // namespace ranksvm
