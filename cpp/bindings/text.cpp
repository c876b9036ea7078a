// Reading and writing of LETOR / SVMlight text.
#include "ranksvm/text.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common.hpp"

namespace ranksvm::bindings {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Fill = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Missing missing_named(const std::string& name) {
  if (name == "error") return Missing::error;
  if (name == "nan") return Missing::nan;
  if (name == "zero") return Missing::zero;
  throw std::invalid_argument("unknown missing '" + name + "'; valid: error, nan, zero");
}

Duplicates duplicates_named(const std::string& name) {
  if (name == "error") return Duplicates::error;
  if (name == "last") return Duplicates::last;
  if (name == "sum") return Duplicates::sum;
  throw std::invalid_argument("unknown duplicates '" + name + "'; valid: error, last, sum");
}

QidUse qid_named(const std::string& name) {
  if (name == "auto") return QidUse::automatic;
  if (name == "required") return QidUse::required;
  if (name == "ignore") return QidUse::ignored;
  throw std::invalid_argument("unknown qid '" + name + "'; valid: auto, required, ignore");
}

// (fault, line, offset in the block, length)
using Error = std::tuple<std::string, int64_t, int64_t, int64_t>;

const char* characters(const Bytes& bytes) { return reinterpret_cast<const char*>(bytes.data()); }

// Arrays of the right size for what the reader holds beside X.
template <class T>
RowOutput row_output(const TextReader<T>& reader, const Fill<double>& y,
                     const std::optional<Fill<int64_t>>& qid,
                     const std::optional<Fill<uint32_t>>& qid_text,
                     const std::optional<Fill<uint8_t>>& comments,
                     const std::optional<Fill<int64_t>>& comment_ends) {
  const auto rows = static_cast<std::size_t>(reader.rows());
  RowOutput out;
  need_size(y.size(), rows, "y");
  out.y = y.data();
  const bool numbers = reader.qid_chars() == 0;
  if ((qid && !(reader.has_qid() && numbers)) || (qid_text && !(reader.has_qid() && !numbers))) {
    throw std::invalid_argument("the ids are of another kind");
  }
  if (qid) {
    need_size(qid->size(), rows, "qid");
    out.qid = qid->data();
  }
  if (qid_text) {
    need_size(qid_text->size(), rows * static_cast<std::size_t>(reader.qid_chars()), "qid_text");
    out.qid_text = qid_text->data();
  }
  if (comments && comment_ends) {
    need_size(comments->size(), static_cast<std::size_t>(reader.comment_bytes()), "comments");
    need_size(comment_ends->size(), rows + 1, "comment_ends");
    out.comments = reinterpret_cast<char*>(comments->data());
    out.comment_ends = comment_ends->data();
  }
  return out;
}

template <class T, class I>
void bind_take_sparse(nb::class_<TextReader<T>>& reader) {
  reader.def(
      "take_sparse",
      [](TextReader<T>& r, Fill<I> indptr, Fill<I> indices, Fill<T> data, Fill<double> y,
         std::optional<Fill<int64_t>> qid, std::optional<Fill<uint32_t>> qid_text,
         std::optional<Fill<uint8_t>> comments, std::optional<Fill<int64_t>> comment_ends,
         int threads) {
        need_size(indptr.size(), static_cast<std::size_t>(r.rows()) + 1, "indptr");
        need_size(indices.size(), static_cast<std::size_t>(r.nonzeros()), "indices");
        need_size(data.size(), static_cast<std::size_t>(r.nonzeros()), "data");
        const RowOutput out = row_output(r, y, qid, qid_text, comments, comment_ends);
        run(threads, [&](const Context& context) {
          r.take_sparse(indptr.data(), indices.data(), data.data(), out, context);
        });
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("data").noconvert(),
      nb::arg("y").noconvert(), nb::arg("qid").noconvert().none(),
      nb::arg("qid_text").noconvert().none(), nb::arg("comments").noconvert().none(),
      nb::arg("comment_ends").noconvert().none(), nb::arg("threads"),
      "Fill arrays in compressed rows; the reader is empty then.");
}

template <class T>
void bind_reader(nb::module_& m, const char* name) {
  auto reader = nb::class_<TextReader<T>>(m, name, "Lines of LETOR text on their way to arrays.");
  reader.def(
      "__init__",
      [](TextReader<T>* self, bool zero_based, int64_t n_features, const std::string& missing,
         bool sort, const std::string& duplicates, const std::string& qid, bool comments,
         int64_t piece_bytes) {
        new (self) TextReader<T>(TextOptions{zero_based, n_features, missing_named(missing), sort,
                                             duplicates_named(duplicates), qid_named(qid), comments,
                                             piece_bytes});
      },
      nb::arg("zero_based"), nb::arg("n_features"), nb::arg("missing"), nb::arg("sort"),
      nb::arg("duplicates"), nb::arg("qid"), nb::arg("comments"), nb::arg("piece_bytes"));
  reader.def(
      "feed",
      [](TextReader<T>& r, Bytes text, int threads) {
        std::optional<TextError> error;
        run(threads, [&](const Context& context) {
          error = r.feed(characters(text), text.size(), context);
        });
        std::optional<Error> result;
        if (error) {
          result = Error{fault_name(error->fault), error->line, error->offset, error->length};
        }
        return result;
      },
      nb::arg("text").noconvert(), nb::arg("threads"),
      "Read whole lines; return (fault, line, offset, length) of the first bad token, if any.");
  reader.def("next_file", &TextReader<T>::next_file, "Count lines anew.");
  reader.def_prop_ro("lines", &TextReader<T>::lines);
  reader.def_prop_ro("file_rows", &TextReader<T>::file_rows);
  reader.def_prop_ro(
      "widths",
      [](const TextReader<T>& r) {
        const LineWidths widths = r.widths();
        return std::make_tuple(widths.least, widths.most, widths.last);
      },
      "Features on the lines of this file: least, most of all but the last, and of the last.");
  reader.def_prop_ro("rows", &TextReader<T>::rows);
  reader.def_prop_ro("width", &TextReader<T>::width);
  reader.def_prop_ro("nonzeros", &TextReader<T>::nonzeros);
  reader.def_prop_ro("has_qid", &TextReader<T>::has_qid);
  reader.def_prop_ro("qid_chars", &TextReader<T>::qid_chars);
  reader.def_prop_ro("has_comments", &TextReader<T>::has_comments);
  reader.def_prop_ro("comment_bytes", &TextReader<T>::comment_bytes);
  reader.def(
      "take_dense",
      [](TextReader<T>& r, nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu> x,
         Fill<double> y, std::optional<Fill<int64_t>> qid, std::optional<Fill<uint32_t>> qid_text,
         std::optional<Fill<uint8_t>> comments, std::optional<Fill<int64_t>> comment_ends,
         int threads) {
        need_size(x.shape(0), static_cast<std::size_t>(r.rows()), "x");
        const RowOutput out = row_output(r, y, qid, qid_text, comments, comment_ends);
        run(threads, [&](const Context& context) {
          r.take_dense(x.data(), static_cast<int64_t>(x.shape(1)), out, context);
        });
      },
      nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("qid").noconvert().none(),
      nb::arg("qid_text").noconvert().none(), nb::arg("comments").noconvert().none(),
      nb::arg("comment_ends").noconvert().none(), nb::arg("threads"),
      "Fill a dense array; the reader is empty then.");
  bind_take_sparse<T, int32_t>(reader);
  bind_take_sparse<T, int64_t>(reader);
}

// --- Writing -------------------------------------------------------------------------------------

// Texts of the rows: one after the other, and where they end.
using Texts = std::tuple<Bytes, Index>;

RowText row_text(const Vector& y, const std::optional<Index>& qid,
                 const std::optional<Texts>& qid_text, const std::optional<Texts>& comments,
                 bool zero_based, const std::string& missing) {
  RowText text{y.data()};
  const auto set = [&](const std::optional<Texts>& given, const char*& begin, const int64_t*& ends,
                       const char* what) {
    if (!given) return;
    const auto& [bytes, all_ends] = *given;
    need_size(all_ends.size(), y.size() + 1, what);
    if (all_ends(y.size()) > static_cast<int64_t>(bytes.size())) {
      throw std::invalid_argument(std::string(what) + " end beyond their text");
    }
    begin = characters(bytes);
    ends = all_ends.data();
  };
  if (qid) {
    need_size(qid->size(), y.size(), "qid");
    text.qid = qid->data();
  }
  set(qid_text, text.qid_text, text.qid_ends, "qid_text");
  set(comments, text.comments, text.comment_ends, "comments");
  text.zero_based = zero_based;
  text.missing = missing;
  return text;
}

template <class Matrix>
nb::bytes formatted(const Matrix& matrix, const RowText& text, std::size_t rows, int threads) {
  std::vector<std::string> pieces;
  run(threads, [&](const Context& context) {
    pieces = format_pieces(matrix, text, static_cast<int64_t>(rows), context);
  });
  std::size_t size = 0;
  for (const std::string& piece : pieces) size += piece.size();
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
  if (bytes == nullptr) throw nb::python_error();
  auto result = nb::steal<nb::bytes>(bytes);  // it has no contents yet
  char* const out = PyBytes_AsString(bytes);
  run(threads, [&](const Context& context) { join(pieces, out, context); });
  return result;
}

template <class T>
void bind_format_dense(nb::module_& m) {
  using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  m.def(
      "format_dense",
      [](Matrix x, Vector y, std::optional<Index> qid, std::optional<Texts> qid_text,
         std::optional<Texts> comments, bool zeros, bool zero_based, const std::string& missing,
         int threads) {
        need_size(y.size(), x.shape(0), "y");
        const RowText text = row_text(y, qid, qid_text, comments, zero_based, missing);
        const DenseText<T> matrix{x.data(), static_cast<int64_t>(x.shape(1)), zeros};
        return formatted(matrix, text, y.size(), threads);
      },
      nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("qid").none(),
      nb::arg("qid_text").none(), nb::arg("comments").none(), nb::arg("zeros"),
      nb::arg("zero_based"), nb::arg("missing"), nb::arg("threads"), "LETOR text of dense rows.");
}

template <class T, class I>
void bind_format_sparse(nb::module_& m) {
  using Values = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using Indices = nb::ndarray<const I, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def(
      "format_sparse",
      [](Indices indptr, Indices indices, Values data, Vector y, std::optional<Index> qid,
         std::optional<Texts> qid_text, std::optional<Texts> comments, bool zeros, bool zero_based,
         const std::string& missing, int threads) {
        need_size(indptr.size(), y.size() + 1, "indptr");
        need_size(indices.size(), data.size(), "indices");
        if (indptr(y.size()) > static_cast<I>(data.size())) {
          throw std::invalid_argument("indptr ends beyond the data");
        }
        const RowText text = row_text(y, qid, qid_text, comments, zero_based, missing);
        const SparseText<T, I> matrix{indptr.data(), indices.data(), data.data(), zeros};
        return formatted(matrix, text, y.size(), threads);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("data").noconvert(),
      nb::arg("y").noconvert(), nb::arg("qid").none(), nb::arg("qid_text").none(),
      nb::arg("comments").none(), nb::arg("zeros"), nb::arg("zero_based"), nb::arg("missing"),
      nb::arg("threads"), "LETOR text of compressed rows.");
}

}  // namespace

void bind_text(nb::module_& m) {
  m.attr("can_read_at") = can_read_at();
  m.def(
      "read_at",
      [](int file, int64_t offset, Fill<uint8_t> text, int threads) {
        int64_t count = 0;
        run(threads, [&](const Context& context) {
          count = read_at(file, offset, reinterpret_cast<char*>(text.data()), text.size(), context);
        });
        return count;
      },
      nb::arg("file"), nb::arg("offset"), nb::arg("text").noconvert(), nb::arg("threads"),
      "Read from a place of a regular file; return how many bytes, or minus an error number.");
  m.def(
      "find_nul",
      [](Bytes text, int threads) {
        int64_t place = -1;
        run(threads, [&](const Context& context) {
          place = find_nul(characters(text), text.size(), context);
        });
        return place;
      },
      nb::arg("text").noconvert(), nb::arg("threads"), "The first byte that is 0; -1 for none.");
  bind_reader<double>(m, "LetorReader64");
  bind_reader<float>(m, "LetorReader32");
  bind_format_dense<double>(m);
  bind_format_dense<float>(m);
  bind_format_sparse<double, int32_t>(m);
  bind_format_sparse<double, int64_t>(m);
  bind_format_sparse<float, int32_t>(m);
  bind_format_sparse<float, int64_t>(m);
}

}  // namespace ranksvm::bindings
