// The form of a subscription. A new one is created; of an existing one every change goes to the server at once.

import { $, calmed, latest, make, setField } from "./dom.js";

const CALM_MS = 200;
const POINT_FIELDS = { similar: ["delta", "tau", "measure"], topk: ["k", "alpha", "decay"], nearest: ["k", "match"] };
const SHAPES = { box: ["west", "south", "east", "north"], circle: ["x", "y", "radius"] };

export class Editor {
  #model;
  #client;
  #view;
  #form = $("editor");
  #editing = null; // the key of the subscription that is edited; null: a new one
  #last = null; // what was sent last
  #rest = {}; // fields that the form does not show
  #words = null; // keywords as they are shown and as they were given: words of a list stay whole

  /** `saved(body)` is called when the server has taken a subscription. */
  constructor(model, client, view, saved) {
    this.#model = model;
    this.#client = client;
    this.#view = view;
    this.saved = saved;
    this.problem = null;
    this.#form.addEventListener("submit", event => {
      event.preventDefault();
      this.#send();
    });
    this.#form.addEventListener("input", event => this.#changed(event.target));
    $("keywords").addEventListener("scroll", () => {
      $("underline").scrollTop = $("keywords").scrollTop;
    });
    for (const shape of ["box", "circle", "polygon"])
      $(`draw-${shape}`).addEventListener("click", () => this.#draw(shape));
    this.later = calmed(CALM_MS, () => this.#send());
    this.preview = calmed(CALM_MS, () => this.#estimate());
    $("new").addEventListener("click", () => this.fresh());
    $("here").addEventListener("click", () => {
      this.#place(view.centre);
      this.#changed($("lon"));
    });
    model.addEventListener("select", () => this.#selected());
    document.addEventListener("keydown", event => {
      if (event.key === "Escape") view.cancel();
    });
  }

  #field(name) {
    return this.#form.elements[name];
  }
  get #kind() {
    return this.#field("kind").value;
  }

  /** Begin a new subscription. */
  fresh() {
    if (this.#editing !== null) this.#send(); // what was typed last
    this.#editing = null;
    this.#rest = {};
    this.#words = null;
    this.#last = null;
    this.#form.reset();
    this.#place(this.#view.centre);
    const [west, south, east, north] = this.#model.setup.bounds;
    const third = (low, high, n) => Number((low + ((high - low) * n) / 3).toPrecision(9));
    this.#region([third(west, east, 1), third(south, north, 1), third(west, east, 2), third(south, north, 2)]);
    for (let n = this.#model.listed.length + 1; ; n++) {
      if (this.#model.subscriptions.has(`mine-${n}`)) continue;
      this.#field("id").value = `mine-${n}`;
      break;
    }
    this.#show();
    this.#complain(null);
    $("estimate").textContent = "";
    $("keywords").focus();
  }

  #selected() {
    const { current } = this.#model;
    if (current?.key === this.#editing) return;
    if (this.#editing !== null && this.#model.subscriptions.has(this.#editing)) this.#send(); // what was typed last
    this.#editing = current?.key ?? null;
    if (current) this.fill(current.body);
    else this.#show();
  }

  /** Show a subscription. */
  fill(body) {
    const { id, kind, keywords, lon, lat, region, ...rest } = body;
    this.#form.reset();
    const fields = POINT_FIELDS[kind] || [];
    this.#rest = Object.fromEntries(Object.entries(rest).filter(([name]) => !fields.includes(name)));
    this.#field("id").value = id;
    this.#field("kind").value = kind;
    const shown = Array.isArray(keywords) ? keywords.join(kind === "within" ? " AND " : " ") : keywords;
    this.#field("keywords").value = shown;
    this.#words = { shown, keywords };
    for (const name of fields) setField(this.#field(name), rest[name]);
    if (region) this.#region(region);
    else this.#place([lon, lat]);
    this.#last = JSON.stringify(this.body());
    this.#show();
    this.#complain(null);
    this.preview();
  }

  /** A pin was moved: the numbers follow. */
  moved(key, place) {
    if (key !== this.#editing) return;
    if (place.region) this.#region(place.region);
    else this.#place([place.lon, place.lat]);
    this.#last = JSON.stringify(this.body());
  }

  #place([lon, lat]) {
    this.#field("lon").value = lon;
    this.#field("lat").value = lat;
  }

  #region(region) {
    const shape = Array.isArray(region) ? "box" : region.type.toLowerCase();
    this.#field("shape").value = shape;
    if (shape === "box")
      SHAPES.box.forEach((name, at) => {
        this.#field(name).value = region[at];
      });
    else if (shape === "circle")
      [...region.coordinates.slice(0, 2), region.radius].forEach((value, at) => {
        this.#field(SHAPES.circle[at]).value = value;
      });
    else
      this.#field("rings").value =
        shape === "polygon" && region.coordinates.length === 1
          ? region.coordinates[0]
              .slice(0, -1)
              .map(point => point.join(" "))
              .join("\n")
          : JSON.stringify(region);
    if (shape === "multipolygon") this.#field("shape").value = "polygon";
  }

  async #draw(shape) {
    $("hint").textContent =
      {
        box: "Click two corners.",
        circle: "Click the middle, then the edge.",
        polygon: "Click the corners; click the first one again to finish.",
      }[shape] + " Escape gives up.";
    const region = await this.#view.draw(shape);
    $("hint").textContent = "";
    if (!region) return;
    this.#field("kind").value = "within";
    this.#region(region);
    this.#changed(this.#field("shape"));
  }

  #changed(target) {
    this.#show();
    if (target.name === "id") return;
    if (this.#editing === null) this.preview();
    else this.later();
  }

  #show() {
    const kind = this.#kind,
      shape = this.#field("shape").value;
    for (const part of this.#form.querySelectorAll("[data-kinds]"))
      part.hidden = !part.dataset.kinds.split(" ").includes(kind);
    for (const part of this.#form.querySelectorAll("[data-shape]")) part.hidden = part.dataset.shape !== shape;
    for (const name of ["delta", "tau", "alpha", "k"]) $(`${name}-value`).textContent = this.#field(name).value;
    this.#field("id").readOnly = this.#editing !== null;
    this.#field("kind").disabled = this.#editing !== null;
    $("create").hidden = this.#editing !== null;
    $("delete").hidden = this.#editing === null;
    $("editor-title").textContent = this.#editing === null ? "New subscription" : `Edit ${this.#editing}`;
  }

  /** The subscription that the form describes. */
  body() {
    const kind = this.#kind,
      number = name => (this.#field(name).value === "" ? null : Number(this.#field(name).value));
    const known = this.#model.subscriptions.get(this.#editing);
    const body = { id: known ? known.id : this.#field("id").value, kind, keywords: this.#keywords(), ...this.#rest };
    if (kind === "within") return { ...body, region: this.#regionGiven(number) };
    body.lon = number("lon");
    body.lat = number("lat");
    for (const name of POINT_FIELDS[kind])
      body[name] = ["measure", "match"].includes(name) ? this.#field(name).value : number(name);
    return body;
  }

  #keywords() {
    const text = this.#field("keywords").value;
    return text === this.#words?.shown ? this.#words.keywords : text;
  }

  #regionGiven(number) {
    const shape = this.#field("shape").value;
    if (shape === "box") return SHAPES.box.map(number);
    if (shape === "circle")
      return { type: "Circle", coordinates: [number("x"), number("y")], radius: number("radius") };
    const text = this.#field("rings").value.trim();
    if (text.startsWith("{")) {
      try {
        return JSON.parse(text);
      } catch {
        return text;
      }
    }
    const ring = text
      .split("\n")
      .filter(line => line.trim())
      .map(line =>
        line
          .trim()
          .split(/[\s,]+/)
          .map(Number),
      );
    return { type: "Polygon", coordinates: [[...ring, ring[0]].filter(Boolean)] };
  }

  /** What the query would match, before anybody subscribes; an error is shown as it is typed. */
  async #estimate() {
    const { id, ...query } = this.body(),
      text = JSON.stringify(query);
    let told = "",
      problem = null;
    try {
      if (query.keywords.length) {
        const { matches, per_hour } = await this.#client.preview(query);
        const often =
          per_hour === null ? "" : `, about ${per_hour < 10 ? per_hour.toFixed(1) : Math.round(per_hour)} an hour`;
        const verb = ["topk", "nearest"].includes(query.kind) ? "qualify" : "match";
        told = `${matches} of the live messages ${verb}${often}`;
      }
    } catch (error) {
      problem = error;
    }
    const { id: now, ...present } = this.body();
    if (text !== JSON.stringify(present)) return; // it was changed meanwhile
    $("estimate").textContent = told;
    this.#complain(problem);
  }

  #send() {
    this.later.cancel();
    const body = this.body(),
      text = JSON.stringify(body);
    if (this.#editing !== null && text === this.#last) return;
    this.#last = text;
    this.#put({ body, text, editing: this.#editing });
  }

  /** One request at a time, so that the last one sent is the last one taken. */
  #put = latest(async ({ body, text, editing }) => {
    const isHere = () => this.#editing === editing && this.#last === text;
    try {
      await this.#client.subscribe(body);
    } catch (error) {
      if (isHere()) this.#complain(error);
      return;
    }
    this.saved(body);
    if (!isHere()) return;
    this.#complain(null);
    if (editing === null) {
      this.#editing = String(body.id);
      this.#model.select(this.#editing);
      this.#show();
    }
    if (JSON.stringify(this.body()) === text) this.#estimate();
    else this.later(); // it was changed meanwhile
  });

  /** Show what the server refused; a malformed expression is underlined where the server says. */
  #complain(error) {
    this.problem = error;
    const keywords = $("keywords"),
      place = error?.field === "keywords" ? /position (\d+)/.exec(error.message) : null;
    $("problem").textContent = error ? error.message : "";
    $("problem").hidden = !error;
    for (const element of this.#form.elements) if (element.name) element.removeAttribute("aria-invalid");
    const wrong = error && (this.#form.elements[error.field] || null);
    if (wrong instanceof HTMLElement) wrong.setAttribute("aria-invalid", "true");
    $("underline").replaceChildren();
    if (place) {
      const text = keywords.value,
        at = Math.min(Number(place[1]) - 1, text.length);
      const rest = text.slice(at),
        size = Math.max(1, (/^\S+/.exec(rest) || [" "])[0].length);
      const wave = make("mark", {}, text.slice(at, at + size) || "\u00a0");
      $("underline").append(text.slice(0, at), wave, text.slice(at + size));
    }
  }
}
