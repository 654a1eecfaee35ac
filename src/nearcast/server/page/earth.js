// The map of a space on Earth: MapLibre over Natural Earth's borders, all from this server; terra-draw for drawing.

import * as maplibre from "./vendor/maplibre-gl/maplibre-gl.mjs";
import { TerraDraw, TerraDrawCircleMode, TerraDrawPolygonMode, TerraDrawRectangleMode } from "terra-draw";
import { TerraDrawMapLibreGLAdapter } from "./vendor/terra-draw/terra-draw-maplibre-gl-adapter.js";
import { outlines, rounded } from "./geo.js";

const EMPTY = { type: "FeatureCollection", features: [] };
const HIT_PX = 12;
const KIND = colours => [
  "match",
  ["get", "kind"],
  ...["within", "similar", "topk", "nearest"].flatMap(kind => [kind, colours[kind]]),
  colours.soft,
];

export class View {
  #map;
  #shown = new Map(); // message key -> "hit" as drawn
  #draw = null;
  #setup;
  #colours;

  /** `colours` gives the page's colours by name. */
  static async create(container, setup, colours) {
    const atlas = await (await fetch(new URL("./vendor/world-atlas/countries-50m.json", import.meta.url))).json();
    const countries = globalThis.topojson.feature(atlas, atlas.objects.countries);
    const earth = new View(container, setup, colours, countries);
    await new Promise((done, failed) => {
      earth.#map.once("load", done);
      earth.#map.once("error", event => failed(event.error));
    });
    return earth;
  }

  constructor(container, setup, colours, countries) {
    this.#setup = setup;
    this.#colours = colours;
    const sources = {
      countries: { type: "geojson", data: countries, tolerance: 0.2 },
      city: { type: "geojson", data: features(setup) },
      regions: { type: "geojson", data: EMPTY },
      messages: { type: "geojson", data: EMPTY, promoteId: "key" },
    };
    for (const name of Object.keys(sources)) if (name !== "messages") sources[name].attribution = "";
    if (setup.basemap) sources.base = baseSource(setup.basemap);
    this.#map = new maplibre.Map({
      container,
      style: { version: 8, sources, layers: layers(colours(), setup.basemap) },
      bounds: setup.bounds,
      fitBoundsOptions: { padding: 20, animate: false },
      attributionControl: false,
      dragRotate: false,
      pitchWithRotate: false,
      touchPitch: false,
      maxZoom: 19,
      renderWorldCopies: true,
      trackResize: true,
    });
    this.#map.touchZoomRotate.disableRotation();
    this.#map.getCanvas().setAttribute("aria-label", "Map; arrow keys pan, plus and minus zoom");
    this.element = container;
  }

  project([lon, lat]) {
    const point = this.#map.project([lon, lat]);
    return [point.x, point.y];
  }
  unproject([x, y]) {
    const place = this.#map.unproject([x, y]).wrap();
    return [this.#rounded(place.lng), this.#rounded(place.lat)];
  }
  #rounded(value) {
    return rounded(value, this.#setup.bounds, "haversine");
  }
  onmove(work) {
    this.#map.on("move", work);
    this.#map.on("resize", work);
  }
  onclick(work) {
    this.#map.on("click", event => {
      if (!this.#draw) work([event.point.x, event.point.y]);
    });
  }
  zoom(step) {
    this.#map.zoomTo(this.#map.getZoom() + step, { duration: 0 });
  }
  fit() {
    this.#map.fitBounds(this.#setup.bounds, { padding: 20, animate: false });
  }
  goTo([lon, lat]) {
    this.#map.jumpTo({ center: [lon, lat] });
  }
  get centre() {
    const place = this.#map.getCenter().wrap();
    return [this.#rounded(place.lng), this.#rounded(place.lat)];
  }

  /** Draw these messages: `[key, lon, lat, hit]`. Only what changed goes to the map. */
  setMessages(list) {
    const change = { add: [], remove: [], update: [] };
    const seen = new Set();
    for (const [key, lon, lat, hit] of list) {
      seen.add(key);
      const before = this.#shown.get(key);
      if (before === undefined) {
        const geometry = { type: "Point", coordinates: [lon, lat] };
        change.add.push({ type: "Feature", geometry, properties: { key, hit } });
      } else if (before !== hit) {
        change.update.push({ id: key, addOrUpdateProperties: [{ key: "hit", value: hit }] });
      }
      this.#shown.set(key, hit);
    }
    for (const key of this.#shown.keys())
      if (!seen.has(key)) {
        change.remove.push(key);
        this.#shown.delete(key);
      }
    if (change.add.length || change.remove.length || change.update.length) {
      this.#map.getSource("messages").updateData(change);
    }
  }

  /** Draw the regions of subscriptions: `{ key, kind, region, selected }`. */
  setRegions(list) {
    const drawn = list.map(({ kind, region, selected }) => ({
      type: "Feature",
      geometry: { type: "MultiPolygon", coordinates: outlines(region, "haversine") },
      properties: { kind, selected },
    }));
    this.#map.getSource("regions").setData({ type: "FeatureCollection", features: drawn });
  }

  /** The message at a point of the screen, if there is one. */
  pick([x, y]) {
    const found = this.#map.queryRenderedFeatures(
      [
        [x - HIT_PX, y - HIT_PX],
        [x + HIT_PX, y + HIT_PX],
      ],
      { layers: ["hits", "messages"] },
    );
    return found.length ? found[0].properties.key : null;
  }

  /** Let a person draw a `box`, `circle` or `polygon`; null if they give up. */
  draw(shape) {
    this.cancel();
    const modes = {
      box: new TerraDrawRectangleMode(),
      circle: new TerraDrawCircleMode({ projection: "globe" }),
      polygon: new TerraDrawPolygonMode(),
    };
    const draw = new TerraDraw({
      adapter: new TerraDrawMapLibreGLAdapter({ map: this.#map }),
      modes: Object.values(modes),
    });
    return new Promise(done => {
      this.#draw = { draw, done };
      draw.start();
      draw.setMode(modes[shape].mode);
      draw.on("finish", id => {
        const feature = draw.getSnapshot().find(each => each.id === id);
        // terra-draw is still at work inside this call.
        setTimeout(() => this.#end(feature ? this.#region(shape, feature) : null));
      });
    });
  }

  cancel() {
    if (this.#draw) this.#end(null);
  }

  #end(region) {
    if (!this.#draw) return;
    const { draw, done } = this.#draw;
    this.#draw = null;
    draw.stop();
    done(region);
  }

  #region(shape, feature) {
    const ring = feature.geometry.coordinates[0].map(([lon, lat]) => [this.#rounded(lon), this.#rounded(lat)]);
    if (shape === "polygon") return { type: "Polygon", coordinates: [ring] };
    const [lons, lats] = [ring.map(point => point[0]), ring.map(point => point[1])];
    const [west, south, east, north] = [Math.min(...lons), Math.min(...lats), Math.max(...lons), Math.max(...lats)];
    if (shape === "box") return [west, south, east, north];
    const centre = [this.#rounded((west + east) / 2), this.#rounded((south + north) / 2)];
    return { type: "Circle", coordinates: centre, radius: Math.round(feature.properties.radiusKilometers * 1000) };
  }

  /** The page's colours have changed. */
  recolour() {
    for (const layer of layers(this.#colours(), this.#setup.basemap)) {
      for (const [name, value] of Object.entries(layer.paint)) this.#map.setPaintProperty(layer.id, name, value);
    }
  }
}

/** Tiles of the server's own file. */
function baseSource({ type, min_zoom, max_zoom, bounds }) {
  const tiles = [`${new URL("./basemap", import.meta.url)}/{z}/{x}/{y}`];
  return { type, tiles, minzoom: min_zoom, maxzoom: max_zoom, bounds, ...(type === "raster" ? { tileSize: 256 } : {}) };
}

/** What is drawn of vector tiles, by the names that their makers give to layers. */
const BASE = [
  [/^(earth|land)$/, "fill", "land"],
  [/park|green|landuse|landcover|natural/, "fill", "park"],
  [/water|ocean/, "fill", "water"],
  [/water|river/, "line", "water"],
  [/building/, "fill", "street-edge"],
  [/road|street|transport(?!.*name)/, "line", "street"],
  [/bound/, "line", "street-edge"],
];

function baseLayers(basemap, colours) {
  if (!basemap) return [];
  if (basemap.type === "raster") return [{ id: "base", type: "raster", source: "base", paint: {} }];
  const shapes = { fill: "Polygon", line: "LineString" };
  return BASE.flatMap(([names, type, colour]) =>
    basemap.layers
      .filter(name => names.test(name) && !/label|name|place/.test(name))
      .map(name => ({
        id: `base-${type}-${name}`,
        type,
        source: "base",
        "source-layer": name,
        filter: ["==", ["geometry-type"], shapes[type]],
        paint: type === "fill" ? { "fill-color": colours[colour] } : { "line-color": colours[colour], "line-width": 1.5 },
      })),
  );
}

function layers(colours, basemap) {
  const line = (id, source, paint, filter) => ({
    id,
    source,
    type: "line",
    layout: { "line-cap": "round", "line-join": "round" },
    paint,
    ...(filter ? { filter } : {}),
  });
  const of = type => ["==", ["get", "type"], type];
  const dot = ["interpolate", ["linear"], ["zoom"], 0, 1.5, 10, 3, 16, 6];
  return [
    { id: "sea", type: "background", paint: { "background-color": colours.water } },
    { id: "land", type: "fill", source: "countries", paint: { "fill-color": colours.land, "fill-antialias": false } },
    line("borders", "countries", { "line-color": colours["street-edge"], "line-width": 0.8 }),
    ...baseLayers(basemap, colours),
    { id: "ground", type: "fill", source: "city", filter: of("ground"), paint: { "fill-color": colours.land } },
    { id: "water", type: "fill", source: "city", filter: of("water"), paint: { "fill-color": colours.water } },
    { id: "parks", type: "fill", source: "city", filter: of("park"), paint: { "fill-color": colours.park } },
    line("rivers", "city", { "line-color": colours.water, "line-width": 6 }, of("river")),
    line("streets", "city", { "line-color": colours.street, "line-width": 3 }, of("street")),
    {
      id: "areas",
      type: "fill",
      source: "regions",
      paint: { "fill-color": KIND(colours), "fill-opacity": ["case", ["get", "selected"], 0.14, 0.04] },
    },
    line("outlines", "regions", {
      "line-color": KIND(colours),
      "line-width": ["case", ["get", "selected"], 2.5, 1],
      "line-opacity": ["case", ["get", "selected"], 1, 0.5],
    }),
    {
      id: "messages",
      type: "circle",
      source: "messages",
      filter: ["==", ["get", "hit"], ""],
      paint: { "circle-radius": dot, "circle-color": colours.soft, "circle-opacity": 0.45 },
    },
    {
      id: "hits",
      type: "circle",
      source: "messages",
      filter: ["!=", ["get", "hit"], ""],
      paint: {
        "circle-radius": ["interpolate", ["linear"], ["zoom"], 0, 4, 16, 8],
        "circle-color": [
          "match",
          ["get", "hit"],
          ...["within", "similar", "topk", "nearest"].flatMap(kind => [kind, colours[kind]]),
          colours.soft,
        ],
        "circle-stroke-color": colours.halo,
        "circle-stroke-width": 1.5,
      },
    },
  ];
}

/** The streets of the invented city, if this is its space. */
function features({ bounds, city }) {
  const [west, south, east, north] = bounds;
  const ground = {
    type: "ground",
    points: [
      [west, south],
      [east, south],
      [east, north],
      [west, north],
    ],
  };
  const shapes = { ground: "Polygon", water: "Polygon", park: "Polygon", river: "LineString", street: "LineString" };
  const isCity = city.bounds.every((value, at) => value === bounds[at]);
  const drawn = (isCity ? [ground, ...city.features] : [])
    .filter(each => each.type in shapes)
    .map(({ type, name, points }) => ({
      type: "Feature",
      geometry: { type: shapes[type], coordinates: shapes[type] === "Polygon" ? [[...points, points[0]]] : points },
      properties: { type, name: name || "" },
    }));
  return { type: "FeatureCollection", features: drawn };
}
