"""Models and model files.  A model file contains weights, names and training facts, but no code.

A model file is a safetensors file:

    8 bytes      length n of the header, little-endian
    n bytes      header, JSON: type, shape and offsets of every array, strings in "__metadata__"
    the rest     the arrays, little-endian, in C order

Everything except the arrays is in one JSON string, the description, "ranksvm" in "__metadata__":

    schema         1, or 2 if the facts have an encoding of the columns of a table; incremented
                   when the meaning of the entries changes
    written_by     version of the library
    kind           format of the arrays, for example "linear": one weight per feature, "coef"
    params         parameters of the estimator
    feature_names  one string per feature, or null
    facts          facts about the training: objective, gap, number of pairs, ...
    sha256         checksum of the other entries and the arrays

The same model gives the same bytes.  Files are not trusted: every length is compared with the
actual size before memory is allocated, values are counted before they are parsed, the file is read
through one descriptor and never memory-mapped (it may be replaced or truncated meanwhile), and only
numbers and strings are read from it.  The checksum detects damage, not forgery.
"""

from ranksvm.models.explain import Explanation
from ranksvm.models.files import write_model
from ranksvm.models.model import Model, ModelFileError

__all__ = ["Explanation", "Model", "ModelFileError", "write_model"]
