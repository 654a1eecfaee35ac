// Regions: their outlines, their middle, another place for them; in degrees on Earth, in plain coordinates otherwise.

const RADIUS_M = 6371008.8;
const RAD = Math.PI / 180;
const STEPS = 64;

/** Rings of `[lon, lat]`, one list for each polygon. */
export function outlines(region, metric) {
  if (Array.isArray(region)) {
    const [west, south, given, north] = region;
    const east = given < west ? given + 360 : given;
    return [
      [
        [
          [west, south],
          [east, south],
          [east, north],
          [west, north],
          [west, south],
        ],
      ],
    ];
  }
  if (region.type === "Circle") return [[circle(region.coordinates, region.radius, metric)]];
  return region.type === "Polygon" ? [region.coordinates] : region.coordinates;
}

function circle([lon, lat], radius, metric) {
  const ring = [];
  for (let step = 0; step <= STEPS; step++) {
    const turn = (2 * Math.PI * (step % STEPS)) / STEPS;
    if (metric !== "haversine") {
      ring.push([lon + radius * Math.cos(turn), lat + radius * Math.sin(turn)]);
      continue;
    }
    const far = radius / RADIUS_M;
    const y = Math.asin(Math.sin(lat * RAD) * Math.cos(far) + Math.cos(lat * RAD) * Math.sin(far) * Math.cos(turn));
    const x = Math.atan2(
      Math.sin(turn) * Math.sin(far) * Math.cos(lat * RAD),
      Math.cos(far) - Math.sin(lat * RAD) * Math.sin(y),
    );
    ring.push([lon + x / RAD, y / RAD]);
  }
  return ring;
}

/** Where a region's pin stands. */
export function middle(region, metric) {
  if (!Array.isArray(region) && region.type === "Circle") return region.coordinates.slice(0, 2);
  const points = outlines(region, metric).flatMap(rings => rings[0]);
  const [lons, lats] = [points.map(point => point[0]), points.map(point => point[1])];
  return [(Math.min(...lons) + Math.max(...lons)) / 2, (Math.min(...lats) + Math.max(...lats)) / 2];
}

/** Where a subscription's pin stands. */
export function placeOf(subscription, metric) {
  return subscription.region ? middle(subscription.region, metric) : [subscription.lon, subscription.lat];
}

/** What a move to `[lon, lat]` says: the place, or the region with its middle there. */
export function movedTo(subscription, [lon, lat], metric) {
  if (!subscription.region) return { lon: wrapped(lon, metric), lat: clamped(lat, metric) };
  const [x, y] = middle(subscription.region, metric);
  return { region: shifted(subscription.region, lon - x, lat - y, metric) };
}

function shifted(region, dx, dy, metric) {
  const point = ([x, y]) => [x + dx, clamped(y + dy, metric)];
  if (Array.isArray(region)) {
    const [west, south, east, north] = region;
    return [
      wrapped(west + dx, metric),
      clamped(south + dy, metric),
      wrapped(east + dx, metric),
      clamped(north + dy, metric),
    ];
  }
  if (region.type === "Circle") {
    const [x, y] = point(region.coordinates);
    return { ...region, coordinates: [wrapped(x, metric), y] };
  }
  const rings = list => list.map(ring => ring.map(point));
  return {
    ...region,
    coordinates: region.type === "Polygon" ? rings(region.coordinates) : region.coordinates.map(rings),
  };
}

const clamped = (lat, metric) => (metric === "haversine" ? Math.max(-90, Math.min(90, lat)) : lat);

function wrapped(lon, metric) {
  if (metric !== "haversine" || (lon >= -180 && lon <= 180)) return lon;
  return ((((lon + 180) % 360) + 360) % 360) - 180;
}

/** A place with as many digits as a person needs: about a decimetre, or a millionth of the bounds. */
export function rounded(value, bounds, metric) {
  const step = metric === "haversine" ? 1e-6 : 10 ** Math.floor(Math.log10((bounds[2] - bounds[0]) * 1e-6));
  return Number((Math.round(value / step) * step).toPrecision(12));
}
