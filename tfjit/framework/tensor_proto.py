"""Constants from Python values under the name that the op wrappers import them by; framework.tensors has the code."""

from tfjit.framework.tensors import make_ndarray as make_ndarray
from tfjit.framework.tensors import make_tensor_array as make_tensor_array
from tfjit.framework.tensors import make_tensor_proto as make_tensor_proto
from tfjit.framework.tensors import parse_tensor_proto as parse_tensor_proto
