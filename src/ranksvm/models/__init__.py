"""Models, and model files: weights, names and training facts, and no code.

A model file is a safetensors file:

    8 bytes      length n of the header, little-endian
    n bytes      header, JSON: type, shape and place of every array, texts in "__metadata__"
    the rest     the arrays, little-endian, in C order

All that is not an array is one JSON text, its description, "ranksvm" in "__metadata__":

    schema         1; a change of what the entries mean takes the next number
    written_by     version of the library
    kind           format of the arrays, for example "linear": one weight per feature, "coef"
    params         parameters of the estimator
    feature_names  one text per feature, or null
    facts          what is known of the training: objective, gap, number of pairs, ...
    sha256         of the other entries and the arrays

The same model gives the same bytes.  Reading takes nothing on trust: every length is compared with
what is there before memory is asked for, values are counted before they are parsed, the file is
read through one descriptor and never mapped (it may be replaced or cut off meanwhile), and only
numbers and texts come out of it.  The checksum finds damage, not forgery.
"""

from ranksvm.models.explain import Explanation
from ranksvm.models.files import write_model
from ranksvm.models.model import Model, ModelFileError

__all__ = ["Explanation", "Model", "ModelFileError", "write_model"]
