// The map of a plane: plain coordinates on a canvas, with the same methods as the map of the Earth.

import { outlines, rounded } from "./geo.js";

const PAD_PX = 24;
const HIT_PX = 12;

export class View {
  #canvas = document.createElement("canvas");
  #context = this.#canvas.getContext("2d");
  #setup;
  #colours;
  #scale = 1;
  #origin = [0, 0]; // where coordinates (0, 0) stand on the screen
  #messages = [];
  #regions = [];
  #movers = [];
  #clickers = [];
  #drawing = null; // { shape, points, hover, done }
  #asked = false;

  static async create(container, setup, colours) {
    return new View(container, setup, colours);
  }

  constructor(container, setup, colours) {
    this.#setup = setup;
    this.#colours = colours;
    this.element = container;
    this.#canvas.tabIndex = 0;
    this.#canvas.setAttribute("role", "application");
    this.#canvas.setAttribute("aria-label", "Map; arrow keys pan, plus and minus zoom");
    container.append(this.#canvas);
    new ResizeObserver(() => this.#resized()).observe(container);
    this.#canvas.addEventListener(
      "wheel",
      event => {
        event.preventDefault();
        this.#zoomAt(Math.exp(-event.deltaY / 400), [event.offsetX, event.offsetY]);
      },
      { passive: false },
    );
    this.#canvas.addEventListener("pointerdown", event => this.#pressed(event));
    this.#canvas.addEventListener("pointermove", event => this.#hovered([event.offsetX, event.offsetY]));
    this.#canvas.addEventListener("dblclick", () => {
      if (this.#drawing?.shape === "polygon") this.#finish();
    });
    this.#canvas.addEventListener("keydown", event => this.#key(event));
    this.#resized();
  }

  project([x, y]) {
    return [this.#origin[0] + x * this.#scale, this.#origin[1] - y * this.#scale];
  }
  unproject([x, y]) {
    return [this.#rounded((x - this.#origin[0]) / this.#scale), this.#rounded((this.#origin[1] - y) / this.#scale)];
  }
  #rounded(value) {
    return rounded(value, this.#setup.bounds, "euclidean");
  }
  onmove(work) {
    this.#movers.push(work);
  }
  onclick(work) {
    this.#clickers.push(work);
  }
  zoom(step) {
    this.#zoomAt(2 ** step, [this.#canvas.clientWidth / 2, this.#canvas.clientHeight / 2]);
  }
  goTo(place) {
    const [x, y] = this.project(place);
    this.#pan(this.#canvas.clientWidth / 2 - x, this.#canvas.clientHeight / 2 - y);
  }
  get centre() {
    return this.unproject([this.#canvas.clientWidth / 2, this.#canvas.clientHeight / 2]);
  }
  setMessages(list) {
    this.#messages = list;
    this.#ask();
  }
  setRegions(list) {
    this.#regions = list;
    this.#ask();
  }
  recolour() {
    this.#ask();
  }

  fit() {
    const [west, south, east, north] = this.#setup.bounds;
    const [width, height] = [this.#canvas.clientWidth, this.#canvas.clientHeight];
    this.#scale = Math.max(
      1e-12,
      Math.min((width - 2 * PAD_PX) / (east - west), (height - 2 * PAD_PX) / (north - south)),
    );
    this.#origin = [width / 2 - ((west + east) / 2) * this.#scale, height / 2 + ((south + north) / 2) * this.#scale];
    this.#moved();
  }

  pick(point) {
    let best = null,
      least = HIT_PX;
    for (const [key, x, y] of this.#messages) {
      const far = apart(this.project([x, y]), point);
      if (far <= least) [best, least] = [key, far];
    }
    return best;
  }

  draw(shape) {
    this.cancel();
    this.#canvas.focus();
    return new Promise(done => {
      this.#drawing = { shape, points: [], hover: null, done };
      this.#ask();
    });
  }

  cancel() {
    this.#end(null);
  }

  #end(region) {
    const drawing = this.#drawing;
    this.#drawing = null;
    this.#ask();
    drawing?.done(region);
  }

  #resized() {
    const ratio = devicePixelRatio || 1;
    this.#canvas.width = Math.max(1, this.element.clientWidth * ratio);
    this.#canvas.height = Math.max(1, this.element.clientHeight * ratio);
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.fit();
  }

  #zoomAt(factor, [x, y]) {
    this.#scale *= factor;
    this.#origin = [x - (x - this.#origin[0]) * factor, y - (y - this.#origin[1]) * factor];
    this.#moved();
  }

  #pan(dx, dy) {
    this.#origin = [this.#origin[0] + dx, this.#origin[1] + dy];
    this.#moved();
  }
  #moved() {
    this.#ask();
    for (const work of this.#movers) work();
  }

  #pressed(event) {
    const start = [event.offsetX, event.offsetY];
    if (this.#drawing) {
      this.#point(start);
      return;
    }
    let last = start,
      dragged = false;
    const move = next => {
      const at = [next.offsetX, next.offsetY];
      dragged ||= apart(at, start) > 4;
      if (dragged) this.#pan(at[0] - last[0], at[1] - last[1]);
      last = at;
    };
    const up = () => {
      this.#canvas.removeEventListener("pointermove", move);
      if (!dragged) for (const work of this.#clickers) work(start);
    };
    this.#canvas.setPointerCapture(event.pointerId);
    this.#canvas.addEventListener("pointermove", move);
    this.#canvas.addEventListener("pointerup", up, { once: true });
  }

  #point(at) {
    const { shape, points } = this.#drawing;
    points.push(this.unproject(at));
    if (shape !== "polygon" && points.length === 2) this.#finish();
    const first = points.length > 3 ? this.project(points[0]) : null;
    if (first && apart(first, at) < HIT_PX) {
      points.pop();
      this.#finish();
    }
    this.#ask();
  }

  #hovered(at) {
    if (this.#drawing) {
      this.#drawing.hover = this.unproject(at);
      this.#ask();
    }
  }

  #finish() {
    const { shape, points } = this.#drawing;
    if (points.length < (shape === "polygon" ? 3 : 2)) return this.#end(null);
    return this.#end(shaped(shape, points));
  }

  #key(event) {
    const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (step) this.#pan(...step);
    else if (event.key === "+" || event.key === "=") this.zoom(1);
    else if (event.key === "-") this.zoom(-1);
    else if (event.key === "Escape") this.cancel();
    else if (event.key === "Enter" && this.#drawing?.shape === "polygon") this.#finish();
    else return;
    event.preventDefault();
  }

  #ask() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      this.#paint();
    });
  }

  #paint() {
    const context = this.#context,
      colours = this.#colours();
    context.fillStyle = colours.page;
    context.fillRect(0, 0, this.#canvas.clientWidth, this.#canvas.clientHeight);
    const [west, south, east, north] = this.#setup.bounds;
    const [[x0, y0], [x1, y1]] = [this.project([west, north]), this.project([east, south])];
    context.fillStyle = colours.land;
    context.fillRect(x0, y0, x1 - x0, y1 - y0);
    context.strokeStyle = colours.line;
    context.strokeRect(x0, y0, x1 - x0, y1 - y0);
    for (const { kind, region, selected } of this.#regions) this.#shape(region, colours[kind], selected);
    for (const [, x, y, hit] of this.#messages) if (!hit) this.#dot([x, y], 3, colours.soft, 0.45);
    for (const [, x, y, hit] of this.#messages) if (hit) this.#dot([x, y], 6, colours[hit], 1, colours.halo);
    const { shape, points, hover } = this.#drawing || {};
    const all = points ? [...points, ...(hover ? [hover] : [])] : [];
    if (all.length >= 2)
      this.#shape(shaped(shape, all.length === 2 && shape === "polygon" ? [...all, all[1]] : all), colours.ink, true);
  }

  #shape(region, colour, selected) {
    const context = this.#context;
    context.beginPath();
    for (const ring of outlines(region, "euclidean").flat()) {
      ring.forEach((point, at) => {
        const [x, y] = this.project(point);
        if (at) context.lineTo(x, y);
        else context.moveTo(x, y);
      });
      context.closePath();
    }
    context.fillStyle = context.strokeStyle = colour;
    context.globalAlpha = selected ? 0.14 : 0.04;
    context.fill("evenodd");
    context.globalAlpha = selected ? 1 : 0.5;
    context.lineWidth = selected ? 2.5 : 1;
    context.stroke();
    context.globalAlpha = 1;
  }

  #dot(place, radius, fill, alpha, halo) {
    const context = this.#context,
      [x, y] = this.project(place);
    context.globalAlpha = alpha;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fillStyle = fill;
    context.fill();
    if (halo) {
      context.strokeStyle = halo;
      context.lineWidth = 1.5;
      context.stroke();
    }
    context.globalAlpha = 1;
  }
}

const apart = ([x1, y1], [x2, y2]) => Math.hypot(x1 - x2, y1 - y2);

function shaped(shape, points) {
  const [a, b] = points;
  if (shape === "box") return [Math.min(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[0], b[0]), Math.max(a[1], b[1])];
  if (shape === "circle") return { type: "Circle", coordinates: a, radius: Number(apart(a, b).toPrecision(6)) };
  return { type: "Polygon", coordinates: [[...points, points[0]]] };
}
