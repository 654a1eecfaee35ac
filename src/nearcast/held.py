"""`Held`: arrays that enter kernels again and again, kept in memory as kernels see them.

Entering a kernel with a tuple of arrays takes a quarter of a microsecond for each array: its type is looked up by the
names of all fields, and the array is unpacked. For one message that is more than the work. What a `Held` holds is
unpacked once, and again where an array was exchanged for another; entering a kernel with it is reading an address.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any, Generic, NamedTuple, TypeVar

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import NativeValue, intrinsic, models, register_model, unbox

_CONFIG: Any = numba.config  # its settings appear at run time, unknown to type checkers
T = TypeVar("T", bound=tuple[Any, ...])
_WORD = 8  # bytes
_ADDRESS = ir.IntType(8).as_pointer()
N_ITEMS, ITEM_SIZE, DATA, SHAPE = range(2, 6)  # words of an array, as kernels see it; the strides follow the shape


class HeldType(types.Type):
    """Numba's type of a `Held`, by that of the tuple in it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        super().__init__(f"Held({inner})")

    @property
    def types(self) -> tuple[Any]:
        """What it is made of."""
        return (self.inner,)


@register_model(HeldType)
class _HeldModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        base: Any = super()  # which has no types
        base.__init__(manager, kind, _ADDRESS)


@unbox(HeldType)  # type: ignore[untyped-decorator]
def _unbox(_kind: Any, value: Any, c: Any) -> Any:
    """Numba's recipe for taking a `Held` into a kernel."""
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.builder.inttoptr(c.pyapi.long_as_longlong(number), _ADDRESS)
    c.pyapi.decref(number)
    return NativeValue(address)


def _opened(_context: Any, held: Any) -> Any:
    """Numba's recipe for `opened`."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(builder.bitcast(arguments[0], context.get_value_type(held.inner).as_pointer()))

    return held.inner(held), codegen


def _plain_opened(held: Any) -> Any:
    return held.value


# opened(held): the tuple that is held, in a kernel.
opened: Any = _plain_opened if _CONFIG.DISABLE_JIT else intrinsic(_opened)


class _Place(NamedTuple):
    """Where a value lies."""

    at: int  # byte
    kind: Any  # type of its items, or of the number
    items: tuple[_Place, ...]  # of a tuple


class Held(Generic[T]):
    """A tuple of arrays, plain numbers and such tuples, for kernels that take it apart by `opened`."""

    def __init__(self, value: T) -> None:
        self.value: T | None = value  # None: it is being written
        self._numba_type_ = None if _CONFIG.DISABLE_JIT else HeldType(numba.typeof(value))
        self._place, end = _place_of(value, 0)
        memory: Any = np.zeros(end // _WORD + 1, np.int64)
        self.address = memory.ctypes.data
        self._words = memoryview(memory)
        self._floats, self._flags = (memoryview(memory.view(kind)) for kind in (np.float64, np.bool_))
        self._write(value, self._place)

    def hold(self, value: T) -> None:
        """Hold a tuple of the same types instead; what is the same object as before is not looked at."""
        old = self.value
        if value is not old:
            self.value = None  # what is interrupted now is written as a whole the next time
            if old is None:
                self._write(value, self._place)
            else:
                self._renew(value, old, self._place)
            self.value = value

    def _renew(self, value: Any, old: Any, place: _Place) -> None:
        for new, before, inner in zip(value, old, place.items, strict=True):
            if new is not before:
                if inner.items:
                    self._renew(new, before, inner)
                else:
                    self._write(new, inner)

    def _write(self, value: Any, place: _Place) -> None:
        word = place.at // _WORD
        if place.items:
            for item, inner in zip(value, place.items, strict=True):
                self._write(item, inner)
        elif isinstance(value, np.ndarray):
            assert value.dtype == place.kind, "an array of another type"
            assert value.flags.c_contiguous, "an array that is not in one piece"
            words = self._words
            words[word + N_ITEMS], words[word + ITEM_SIZE] = value.size, value.itemsize
            words[word + DATA] = value.ctypes.data
            for at, number in enumerate((*value.shape, *value.strides), word + SHAPE):
                words[at] = number
        else:
            assert type(value) is place.kind, "a number of another type"
            if place.kind is bool:
                self._flags[place.at] = value
            else:
                (self._floats if place.kind is float else self._words)[word] = value


def _place_of(value: Any, at: int) -> tuple[_Place, int]:
    """Where a value lies that may begin at this byte, as compilers of C lay it out, and where it ends."""
    if isinstance(value, bool):
        return _Place(at, bool, ()), at + 1
    at = -(-at // _WORD) * _WORD  # of all else something is a word, or it is a word
    if isinstance(value, np.ndarray):
        return _Place(at, value.dtype, ()), at + _WORD * (SHAPE + 2 * value.ndim)
    if not isinstance(value, tuple):
        return _Place(at, type(value), ()), at + _WORD
    items, end = [], at
    for item in value:
        place, end = _place_of(item, end)
        items.append(place)
    return _Place(at, tuple, tuple(items)), -(-end // _WORD) * _WORD


def unchanged(known: T | None, kind: Callable[..., T], *parts: Any) -> T:
    """The tuple that is known if these very objects are its parts, so that whoever holds it sees that nothing changed.

    Else one of this kind is made of them.
    """
    return known if known is not None and all(map(is_, known, parts)) else kind(*parts)


class HeldCall(Generic[T]):
    """A kernel of a `Held` and plain numbers, called with the tuple that is to be held."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self._kernel = kernel
        self._held: Held[T] | None = None

    def __call__(self, value: T, *rest: Any) -> Any:
        """What the kernel returns."""
        held = self._held
        if held is None:
            held = self._held = Held(value)
        held.hold(value)
        return self._kernel(held, *rest)
