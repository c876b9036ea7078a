#include "kernel_tiles.hpp"

namespace ranksvm {
namespace {

constexpr int64_t kWidestPanel = 64;

// Whether step 1 wants |x - z|_1 instead of <x, z>.
bool is_distance(const KernelFunction& f) { return f.kind == KernelKind::laplacian; }

const SparseLoops<double>& loops_for(const TileLoops& tiles, double) { return tiles.sparse_double; }
const SparseLoops<float>& loops_for(const TileLoops& tiles, float) { return tiles.sparse_float; }

template <class T, class I>
void run_sparse(const TileLoops& tiles, bool distance, const SparseAgainstPanel<T, I>& s) {
  const SparseLoops<T>& loops = loops_for(tiles, T());
  if constexpr (std::is_same_v<I, int32_t>) {
    distance ? loops.distances32(s) : loops.dots32(s);
  } else {
    distance ? loops.distances64(s) : loops.dots64(s);
  }
}

// The lines of a panel of sparse rows that some of its rows need. Line 0 is zero.
template <class T, class I>
class SlottedPanel {
 public:
  SlottedPanel(const SparseRows<T, I>& b, const double* factor, Range columns, int64_t width,
               std::vector<int32_t>& slot)
      : b_(b), factor_(factor), columns_(columns), width_(width), slot_(slot) {}
  ~SlottedPanel() {
    for (auto e = b_.start[columns_.first]; e < b_.start[columns_.last]; ++e) {
      slot_[b_.column[e]] = 0;
    }
  }
  SlottedPanel(const SlottedPanel&) = delete;
  SlottedPanel& operator=(const SlottedPanel&) = delete;

  int64_t most_lines() const {
    const auto nonzeros = static_cast<int64_t>(b_.start[columns_.last]) - b_.start[columns_.first];
    return 1 + std::min(nonzeros, b_.cols);
  }
  void fill(double* panel) {
    int32_t lines = 1;
    std::fill_n(panel, width_, 0.0);
    for (int64_t j = columns_.first; j < columns_.last; ++j) {
      for (auto e = b_.start[j]; e < b_.start[j + 1]; ++e) {
        int32_t& line = slot_[b_.column[e]];
        if (line == 0) {
          line = lines++;
          std::fill_n(panel + line * width_, width_, 0.0);
        }
        panel[line * width_ + j - columns_.first] = value_at(b_, factor_, e);
      }
    }
  }

 private:
  const SparseRows<T, I>& b_;
  const double* factor_;
  Range columns_;
  int64_t width_;
  std::vector<int32_t>& slot_;
};

}  // namespace

void pack_dense(const KernelRows& items, Range rb, Range features, double* room, double* panel) {
  const TileLoops& tiles = items.loops().tiles;
  const double* row[kWidestPanel];
  read_rows(items, rb, tiles.panel, features, room, row);
  tiles.pack(row, features.size(), panel);
}

void TileMaker::set_col_terms(Range rb) {
  double* term = workspace().col_term;
  std::fill_n(term, kTileCols, 0.0);
  if (f_.kind == KernelKind::rbf) {
    std::copy_n(b_.squares().data() + rb.first, rb.size(), term);
  } else if (f_.kind == KernelKind::cosine && b_.shift() != nullptr) {
    std::copy_n(b_.shift() + rb.first, rb.size(), term);
  } else if (is_distance(f_) && a_.sparse()) {  // see sparse_distances
    for (int64_t j = 0; j < rb.size(); ++j) term[j] = b_.l1_norm(rb.first + j);
  }
}

void TileMaker::pack_panel(Range rb, Range features, double* panel) {
  const int64_t width = tiles_.panel;
  std::visit(
      [&](const auto& b) {
        if constexpr (kIsDense<std::decay_t<decltype(b)>>) {
          double* scaled = room(workspace().scaled, room_for_rows(b_, width, features));
          pack_dense(b_, rb, features, scaled, panel);
        } else {
          std::fill_n(panel, features.size() * width, 0.0);
          for (int64_t j = rb.first; j < std::min(rb.first + width, rb.last); ++j) {
            const auto begin = b.column + b.start[j], end = b.column + b.start[j + 1];
            for (auto c = std::lower_bound(begin, end, features.first);
                 c < end && *c < features.last; ++c) {
              panel[(*c - features.first) * width + j - rb.first] =
                  value_at(b, b_.scale().factor, c - b.column);
            }
          }
        }
      },
      b_.data());
}

void TileMaker::pack_panels(Range rb, Range features) {
  panels_ = b_.panels(rb.first);
  if (panels_ != nullptr) return;
  double* panel = room(workspace().panels, kTileCols * features.size());
  panels_ = panel;
  for (; rb.first < rb.last; rb.first += tiles_.panel) {
    pack_panel(rb, features, panel);
    panel += tiles_.panel * features.size();
  }
}

void TileMaker::add_features(Range chunk, Range rb, Range features, double* tile) {
  double* scaled = room(workspace().scaled, room_for_rows(a_, kBlockRows, features));
  const int64_t n_panels = (rb.size() + tiles_.panel - 1) / tiles_.panel;
  const auto dots = is_distance(f_) ? tiles_.distances : tiles_.dots;
  for (int64_t first = chunk.first; first < chunk.last; first += kBlockRows) {
    const double* row[kBlockRows];
    read_rows(a_, {first, chunk.last}, kBlockRows, features, scaled, row);
    dots(row, std::min(kBlockRows, chunk.last - first), features.size(), panels_, n_panels,
         features.first > 0, tile + (first - chunk.first) * kTileCols);
  }
}

void TileMaker::dense_chunk(Range chunk, Range rb, double* tile) {
  for (int64_t first = 0; first < a_.cols(); first += kDepth) {
    context_.check_interrupt();
    const Range features{first, std::min(first + kDepth, a_.cols())};
    pack_panels(rb, features);
    add_features(chunk, rb, features, tile);
  }
}

void TileMaker::sparse_chunk(Range chunk, Range rb, double* tile) {
  std::visit(
      [&](const auto& a) {
        if constexpr (!kIsDense<std::decay_t<decltype(a)>>) sparse_panels(a, chunk, rb, tile);
      },
      a_.data());
}

template <class T, class I>
void TileMaker::sparse_panels(const SparseRows<T, I>& a, Range chunk, Range rb, double* tile) {
  const int64_t width = tiles_.panel;
  const double* factor = b_.scale().factor;
  SparseAgainstPanel<T, I> s{{a.start, a.column, a.value, a_.scale().factor},
                             chunk.first,
                             chunk.last,
                             nullptr,
                             nullptr,
                             tile,
                             kTileCols};
  for (; rb.first < rb.last; rb.first += width, s.out += width) {
    context_.check_interrupt();
    std::visit(
        [&](const auto& b) {
          if constexpr (kIsDense<std::decay_t<decltype(b)>>) {
            double* panel = room(workspace().panels, width * b.cols);
            pack_panel(rb, {0, b.cols}, panel);
            s.panel = panel;
            run_sparse(tiles_, is_distance(f_), s);
          } else {
            SlottedPanel slotted(b, factor, {rb.first, std::min(rb.first + width, rb.last)}, width,
                                 workspace().slot);
            double* panel = room(workspace().panels, width * slotted.most_lines());
            slotted.fill(panel);
            s.slot = workspace().slot.data();
            s.panel = panel;
            run_sparse(tiles_, is_distance(f_), s);
          }
        },
        b_.data());
  }
}

}  // namespace ranksvm
