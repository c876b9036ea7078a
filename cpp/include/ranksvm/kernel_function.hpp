// Kernel functions:
//
//   linear     <x, z>                             rbf        exp(-gamma |x - z|^2)
//   poly       (gamma <x, z> + coef0)^degree      laplacian  exp(-gamma |x - z|_1)
//   sigmoid    tanh(gamma <x, z> + coef0)         cosine     cos(gamma <x, z> + shift of z)
//
// each times `scale`. Squared distances are max(0, |x|^2 + |z|^2 - 2 <x, z>), so rbf wants data
// that are centred as far as they can be. Values of exp below e^-708 are 0.
#pragma once

#include <cstdint>

namespace ranksvm {

enum class KernelKind { linear, poly, sigmoid, rbf, laplacian, cosine };

struct KernelFunction {
  KernelKind kind = KernelKind::linear;
  double gamma = 1.0, coef0 = 0.0;
  int64_t degree = 1;
  double scale = 1.0;
};

}  // namespace ranksvm
