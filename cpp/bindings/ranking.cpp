// Rankings inside queries.
#include "common.hpp"

namespace ranksvm::bindings {

void bind_ranking(nb::module_& /*m*/) {}

}  // namespace ranksvm::bindings
