// The inner loops in plain C++, for any processor.
#include <cstdint>

#include "ranksvm/simd.hpp"
#include "simd_vector_base.hpp"

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

// By lane: how often `other` was less than `own`, minus how often it was more.
struct NetCount {
  int64_t lane[Vec::kWidth] = {};
  void add(Vec own, Vec other) {
    for (int l = 0; l < Vec::kWidth; ++l) {
      lane[l] += static_cast<int64_t>(other.v[l] < own.v[l]) - (other.v[l] > own.v[l] ? 1 : 0);
    }
  }
  void store(int64_t* to) const {
    for (int l = 0; l < Vec::kWidth; ++l) to[l] = lane[l];
  }
};

// Sums of payloads over the masks that have a bit, for each of kSplitLanes bits: a number that
// divides 64.
constexpr unsigned kSplitLanes = 16;

template <unsigned kPayloads>
struct MaskedSums {
  double sum[kPayloads][kSplitLanes] = {};
  void add(uint64_t bits, const double* const* value, unsigned j) {
    for (unsigned k = 0; k < kPayloads; ++k) {
      for (unsigned l = 0; l < kSplitLanes; ++l) sum[k][l] += (bits >> l) & 1 ? value[k][j] : 0.0;
    }
  }
  void store(double* const* to, unsigned at) const {
    for (unsigned k = 0; k < kPayloads; ++k) {
      for (unsigned l = 0; l < kSplitLanes; ++l) to[k][at + l] = sum[k][l];
    }
  }
};

// Bits l of [first, last), multiples of 8, with score[l] - s < margin.
uint64_t below_margin_bits(const double* score, unsigned first, unsigned last, double s,
                           double margin) {
  uint64_t bits = 0;
  for (unsigned l = first; l < last; ++l) {
    bits |= static_cast<uint64_t>(score[l] - s < margin) << l;
  }
  return bits;
}

// sum[l] = sum of value[j], j < n, over the masks (`stride` words apart) that have bit l, l <
// lanes.
void add_masked(const double* value, const uint64_t* mask, unsigned stride, unsigned n,
                unsigned lanes, double* sum) {
  for (unsigned l = 0; l < lanes; ++l) sum[l] = 0.0;
  for (unsigned j = 0; j < n; ++j) {
    const uint64_t bits = mask[j * stride];
    for (unsigned l = 0; l < lanes; ++l) sum[l] += (bits >> l) & 1 ? value[j] : 0.0;
  }
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm

#define RANKSVM_SIMD_NAME "base"
#include "simd_impl.hpp"

namespace ranksvm {
extern const SimdLoops kSimdBase;
const SimdLoops kSimdBase = kLoops;
}  // namespace ranksvm
