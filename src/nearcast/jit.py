"""The `kernel` decorator: functions over flat arrays become native code, compiled once and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from nearcast.dispatcher import Kernel

F = TypeVar("F", bound=Callable[..., Any])

_CONFIG: Any = numba.config  # its settings appear at run time, unknown to type checkers

BITS, LANES = 64, 16  # bytes, and float32, that are compared at once
NEED_ROOM = -1  # a reading kernel's answer when its output array is too small: double it and ask again
KERNELS: list[Any] = []  # every kernel, so that tests can see that each was compiled for one signature only


def kernel(function: F) -> F:
    """Compile `function` with Numba: cached on disk, free of the GIL, exact IEEE arithmetic.

    Without reference counts: a kernel makes no arrays and returns none. Counting those of a tuple of arrays at every
    call of a helper took more than half of the time in which results are kept (2026-11-16).
    """
    return _compiled(function)


def inlined(function: F) -> F:
    """A kernel that becomes part of those that call it.

    With the helpers of the message index inlined a search took 119 us instead of 138 (2026-11-16).
    """
    return _compiled(function, inline="always")


def allocating(function: F) -> F:
    """A kernel that makes arrays, or returns some: with reference counts. Only such a kernel may call one that does."""
    return _compiled(function, counts=True)


def _compiled(function: F, inline: str = "never", counts: bool = False) -> F:
    if _CONFIG.DISABLE_JIT:
        KERNELS.append(function)
        return function
    options = {"nopython": True, "nogil": True, "boundscheck": None, "inline": inline, "_nrt": counts}
    made = Kernel(function, targetoptions=options)
    KERNELS.append(made)
    return cast(F, made)


def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Numba's recipe for `prefetch`: the processor's own instruction, for reading, into all caches."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        layout = signature.args[0]
        made = context.make_array(layout)(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, layout, made, [arguments[1]], wraparound=False)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [builder.bitcast(place, byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


def _no_prefetch(array: Any, index: int) -> None:
    """Plain Python has nothing to fetch."""


# prefetch(array, index): the entry will soon be read; any index is allowed, nothing is read yet.
prefetch: Any = _no_prefetch if _CONFIG.DISABLE_JIT else intrinsic(_prefetch)


def _bits(predicate: str) -> Callable[..., Any]:
    """Numba's recipe for comparing 64 bytes with one: a load, a comparison and its outcomes as the bits of a number."""

    def recipe(_context: Any, array: Any, _start: Any, _value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            layout, byte = signature.args[0], ir.IntType(8)
            made = context.make_array(layout)(context, builder, arguments[0])
            place = cgutils.get_item_pointer(context, builder, layout, made, [arguments[1]], wraparound=False)
            many = ir.VectorType(byte, BITS)
            loaded = builder.load(builder.bitcast(place, many.as_pointer()))
            loaded.align = 1
            first = builder.insert_element(ir.Constant(many, ir.Undefined), arguments[2], ir.IntType(32)(0))
            same = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), BITS), [0] * BITS))
            return builder.bitcast(builder.icmp_unsigned(predicate, loaded, same), ir.IntType(BITS))

        return types.uint64(array, types.int64, types.uint8), codegen

    return recipe


def _lowest(_context: Any, _bits: Any) -> Any:
    """Numba's recipe for `lowest_bit`."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


def _count(_context: Any, array: Any, _start: Any, _n: Any, _value: Any) -> Any:
    """Numba's recipe for `count_at_most`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        layout, number = signature.args[0], ir.IntType(LANES)
        made = context.make_array(layout)(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, layout, made, [arguments[1]], wraparound=False)
        many = ir.VectorType(ir.FloatType(), LANES)
        loaded = builder.load(builder.bitcast(place, many.as_pointer()))
        loaded.align = 4
        first = builder.insert_element(ir.Constant(many, ir.Undefined), arguments[3], ir.IntType(32)(0))
        same = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
        held = builder.zext(builder.bitcast(builder.fcmp_ordered("<=", loaded, same), number), ir.IntType(64))
        one = ir.IntType(64)(1)
        counted = builder.and_(held, builder.sub(builder.shl(one, arguments[2]), one))
        return builder.ctpop(counted)

    return types.int64(array, types.int64, types.int64, types.float32), codegen


def _plain_count(array: Any, start: int, n: int, value: float) -> int:
    return int((array[start : start + n] <= value).sum())


def _plain_bits(held: Any) -> Any:
    return np.uint64(int.from_bytes(np.packbits(held, bitorder="little").tobytes(), "little"))


def _plain_at_most(array: Any, start: int, value: int) -> Any:
    return _plain_bits(array[int(start) : int(start) + BITS] <= value)


def _plain_at_least(array: Any, start: int, value: int) -> Any:
    return _plain_bits(array[int(start) : int(start) + BITS] >= value)


def _plain_lowest(bits: Any) -> int:
    return (int(bits) & -int(bits)).bit_length() - 1


# bits_at_most(bytes, start, value): bit i says whether bytes[start + i] <= value. All 64 must lie inside the array,
# which nobody checks. bits_at_least is for >=.
bits_at_most: Any = _plain_at_most if _CONFIG.DISABLE_JIT else intrinsic(_bits("<="))
bits_at_least: Any = _plain_at_least if _CONFIG.DISABLE_JIT else intrinsic(_bits(">="))
# count_at_most(floats, start, n, value): how many of floats[start:start + n], at most 16 of float32, are <= value; all
# 16 must lie inside the array.
count_at_most: Any = _plain_count if _CONFIG.DISABLE_JIT else intrinsic(_count)
# lowest_bit(bits): the position of the lowest bit of a number above 0.
lowest_bit: Any = _plain_lowest if _CONFIG.DISABLE_JIT else intrinsic(_lowest)
