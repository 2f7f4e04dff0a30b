"""Torch's dtypes by name: how many bytes an element takes, and what the formats call them."""

from __future__ import annotations

from shardviz.checks.checkpoints.pickles import Name

__all__ = ["DTYPES", "SAFETENSORS", "STORAGES", "itemsize"]

_SIZES = {
    1: "bool uint8 int8 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2",
    2: "uint16 int16 float16 bfloat16",
    4: "uint32 int32 float32 complex32",
    8: "uint64 int64 float64 complex64",
    16: "complex128",
}
_ITEMSIZE = {name: size for size, names in _SIZES.items() for name in names.split()}

DTYPES = {Name("torch", name): name for name in _ITEMSIZE}
"""The dtypes as pickles name them."""

STORAGES = {
    Name("torch", f"{word}Storage"): dtype
    for word, dtype in {
        "Bool": "bool",
        "Byte": "uint8",
        "Char": "int8",
        "Short": "int16",
        "Int": "int32",
        "Long": "int64",
        "Half": "float16",
        "BFloat16": "bfloat16",
        "Float": "float32",
        "Double": "float64",
        "ComplexFloat": "complex64",
        "ComplexDouble": "complex128",
    }.items()
}
"""The storage classes that tell a tensor's dtype."""

SAFETENSORS = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
}
"""The dtypes as safetensors names them."""


def itemsize(dtype: str) -> int:
    """Bytes that one element takes."""
    return _ITEMSIZE[dtype]
