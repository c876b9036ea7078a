// Kernels in plain C++, for any processor.
#include <cstdint>

#include "ranksvm/kernels.hpp"

namespace ranksvm {
namespace {
namespace simd {

struct SumRow {
  double lane[kLanes];
  explicit SumRow(const double* from) {
    for (unsigned c = 0; c < kLanes; ++c) lane[c] = from[c];
  }
  void add(uint8_t digit, double value) {
    for (unsigned c = 0; c < kLanes; ++c) lane[c] += c <= digit ? value : 0.0;
  }
  void store(double* to) const {
    for (unsigned c = 0; c < kLanes; ++c) to[c] = lane[c];
  }
};

struct CountRow {
  uint32_t lane[kLanes];
  explicit CountRow(const uint32_t* from) {
    for (unsigned c = 0; c < kLanes; ++c) lane[c] = from[c];
  }
  void add(uint8_t digit) {
    for (unsigned c = 0; c < kLanes; ++c) lane[c] += c <= digit ? 1U : 0U;
  }
  void store(uint32_t* to) const {
    for (unsigned c = 0; c < kLanes; ++c) to[c] = lane[c];
  }
};

// Bit l of `above`: l, were it better, violates its pair with an item of score s; `below`: were it
// worse.
void violated_bits(const double* score, unsigned n, double s, double margin, uint64_t* above,
                   uint64_t* below) {
  uint64_t a = 0, b = 0;
  for (unsigned l = 0; l < n; ++l) {
    a |= static_cast<uint64_t>(score[l] - s < margin) << l;
    b |= static_cast<uint64_t>(s - score[l] < margin) << l;
  }
  *above = a;
  *below = b;
}

void leaf_sums(const double* value, const uint64_t* mask, unsigned n, double* sum) {
  for (unsigned l = 0; l < n; ++l) sum[l] = 0.0;
  for (unsigned j = 0; j < n; ++j) {
    for (unsigned l = 0; l < n; ++l) sum[l] += (mask[j] >> l) & 1 ? value[j] : 0.0;
  }
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm

#define RANKSVM_KERNELS_NAME "base"
#include "kernels_impl.hpp"

namespace ranksvm {
extern const Kernels kKernelsBase;
const Kernels kKernelsBase = kTable;
}  // namespace ranksvm
