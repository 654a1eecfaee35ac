"""Longitudes, latitudes and boxes that tend to break spatial bounds, as Hypothesis strategies."""

from __future__ import annotations

import math

from hypothesis import strategies as st

Box = tuple[float, float, float, float]

SPECIAL_LONS = (
    *(0.0, 5e-324, 1e-200, 1e-9, 1.0, 45.0, 89.99999999999999, 90.0, 90.00000000000001, 135.0),
    *(math.nextafter(180.0, 0.0), 180.0, 180.00000000000003, 179.9999, 190.0, 270.0, 359.99999999999994, 360.0),
    *(360.00000000000006, 370.0, 540.0, 720.0, 1e6, 1e15),
)
SPECIAL_LATS = (
    *(0.0, 5e-324, 1e-200, 1e-12, 1e-6, 1.0, 30.0, 45.0, 60.0, 89.0, 89.9999),
    *(89.99999999, 89.9999999999, math.nextafter(90.0, 0.0), 90.0),
)
WIDTHS = (0.0, 1e-13, 1e-9, 1e-3, 1.0, 20.0, 90.0, 179.0, 180.0, 181.0, 270.0, 359.0, 359.99999999999994, 360.0, 400.0)

signs = st.sampled_from((1.0, -1.0))
lons = (
    st.tuples(st.sampled_from(SPECIAL_LONS), signs).map(math.prod)
    | st.floats(-180.0, 180.0)
    | st.floats(-1000.0, 1000.0)
    | st.integers(-360, 360).map(float)
)
lats = (
    st.tuples(st.sampled_from(SPECIAL_LATS), signs).map(math.prod)
    | st.floats(-90.0, 90.0)
    | st.integers(-90, 90).map(float)
)
plain = st.floats(-1e3, 1e3) | st.integers(-8, 8).map(float) | st.floats(allow_nan=False, allow_infinity=False)
fractions = st.sampled_from((0.0, 1e-15, 0.5, 1.0)) | st.floats(0.0, 1.0)


@st.composite
def lon_lat_boxes(draw: st.DrawFn) -> Box:
    """Boxes on the globe: any width, at and over the date line, touching poles, of no size at all."""
    x0 = draw(lons)
    x1 = x0 + draw(st.sampled_from(WIDTHS) | st.floats(0.0, 360.0))
    y0, y1 = sorted((draw(lats), draw(lats)))
    if draw(st.booleans()):
        y1 = min(90.0, max(y0, y0 + draw(st.sampled_from(WIDTHS))))
    return x0, y0, x1, y1


@st.composite
def plain_boxes(draw: st.DrawFn) -> Box:
    x0, x1 = sorted((draw(plain), draw(plain)))
    y0, y1 = sorted((draw(plain), draw(plain)))
    return x0, y0, x1, y1


def inner(low: float, high: float, fraction: float) -> float:
    """A number from low to high."""
    return min(max(low * (1.0 - fraction) + high * fraction, low), high)
