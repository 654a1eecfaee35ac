// Pins over a map, one for each subscription: buttons that are dragged, or moved by arrow keys.

import { KINDS, make, mark } from "./dom.js";
import { placeOf } from "./geo.js";

const STEP_PX = 8;
const DRAG_PX = 3;

export class Pins {
  #view;
  #model;
  #layer;
  #pins = new Map(); // key -> { element, place }
  #moved;

  /** `moved(key, place)` is called while a pin is on its way. */
  constructor(view, model, moved) {
    this.#view = view;
    this.#model = model;
    this.#moved = moved;
    this.#layer = make("div", { class: "pins" });
    view.element.append(this.#layer);
    view.onmove(() => this.#put());
  }

  /** Show these subscriptions. */
  show(subscriptions) {
    const seen = new Set();
    for (const { key, body } of subscriptions) {
      seen.add(key);
      const pin = this.#pins.get(key) || this.#make(key, body);
      if (!pin.held) pin.place = placeOf(body, this.#model.setup.metric);
      pin.element.classList.toggle("selected", key === this.#model.selected);
    }
    for (const [key, { element }] of this.#pins)
      if (!seen.has(key)) {
        element.remove();
        this.#pins.delete(key);
      }
    this.#put();
  }

  #put() {
    for (const { element, place } of this.#pins.values()) {
      const [x, y] = this.#view.project(place);
      element.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
    }
  }

  #make(key, body) {
    const label = `${key}, ${KINDS[body.kind].name}: drag, or move with arrow keys`;
    const element = make(
      "button",
      { type: "button", class: `pin ${body.kind}`, "data-key": key, "aria-label": label, title: key },
      mark(body.kind),
    );
    const pin = { element, place: [0, 0], held: false };
    element.addEventListener("click", () => this.#model.select(key));
    element.addEventListener("pointerdown", event => this.#drag(event, key, pin));
    element.addEventListener("keydown", event => this.#key(event, key, pin));
    this.#pins.set(key, pin);
    this.#layer.append(element);
    return pin;
  }

  #shift(key, pin, [dx, dy], from) {
    const [x, y] = from || this.#view.project(pin.place);
    pin.place = this.#view.unproject([x + dx, y + dy]);
    this.#put();
    this.#moved(key, pin.place);
  }

  #key(event, key, pin) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const size = event.shiftKey ? 10 * STEP_PX : STEP_PX;
    this.#shift(
      key,
      pin,
      step.map(each => each * size),
    );
  }

  #drag(event, key, pin) {
    if (event.button !== 0) return;
    event.stopPropagation();
    const start = [event.clientX, event.clientY],
      from = this.#view.project(pin.place);
    const { element } = pin;
    const move = next => {
      const way = [next.clientX - start[0], next.clientY - start[1]];
      if (!pin.held && Math.hypot(...way) < DRAG_PX) return;
      pin.held = true;
      this.#shift(key, pin, way, from);
    };
    const up = () => {
      element.removeEventListener("pointermove", move);
      pin.held = false;
    };
    element.setPointerCapture(event.pointerId);
    element.addEventListener("pointermove", move);
    for (const name of ["pointerup", "pointercancel"]) element.addEventListener(name, up, { once: true });
  }
}
