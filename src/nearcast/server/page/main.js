// The page: connect, list, listen; and the few lines that tie its parts together.

import { Compare } from "./compare.js";
import { $, calmed, clockText, latest, make, throttled } from "./dom.js";
import { Editor } from "./editor.js";
import { Examples } from "./examples.js";
import { Feed } from "./feed.js";
import { movedTo } from "./geo.js";
import { List } from "./list.js";
import { EVERYTHING, Model, mirror } from "./model.js";
import { Problem, connect } from "./nearcast.js";
import { Pins } from "./pins.js";
import { Replay } from "./replay.js";
import { Why } from "./why.js";

const LISTED = 50; // subscriptions that are listed at a time
const LIST_MS = 5_000; // between two looks at the list
const OWN_MS = 2_000; // for which a place given here counts more than the list's
const MOVE_MS = 60;
const MAP_MS = 250;
const COLOURS = [
  "page",
  "card",
  "ink",
  "soft",
  "line",
  "land",
  "water",
  "park",
  "street",
  "street-edge",
  "halo",
  "within",
  "similar",
  "topk",
  "nearest",
];

const stored = {
  get: (where, name) => {
    try {
      return where.getItem(name);
    } catch {
      return null;
    }
  },
  set: (where, name, value) => {
    try {
      where.setItem(name, value);
    } catch {
      /* private windows keep nothing */
    }
  },
};

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(COLOURS.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function dress(changed) {
  const chosen =
    stored.get(localStorage, "theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const wear = theme => {
    document.documentElement.dataset.theme = theme;
    $("theme").setAttribute("aria-pressed", String(theme === "dark"));
  };
  wear(chosen);
  $("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    stored.set(localStorage, "theme", next);
    wear(next);
    changed();
  });
}

/** The server's space and window; asks for a key as long as one is needed. */
async function begin() {
  for (;;) {
    const token = stored.get(sessionStorage, "key");
    const answer = await fetch("setup.json", { headers: token ? { Authorization: `Bearer ${token}` } : {} });
    if (answer.ok)
      return {
        setup: { ...(await answer.json()), city: await (await fetch("city.json")).json() },
        client: connect({ token }),
      };
    const problem = new Problem(answer.status, await answer.json().catch(() => ({})));
    if (answer.status !== 401 && answer.status !== 403) throw problem;
    $("key-problem").textContent = token ? problem.message : "";
    $("key-dialog").showModal();
    await new Promise(done => {
      $("key-dialog").addEventListener("close", done, { once: true });
    });
    stored.set(sessionStorage, "key", $("key").value);
  }
}

class Page {
  constructor(model, client, view) {
    this.model = model;
    this.client = client;
    this.view = view;
    this.detach = new Map();
    this.limit = LISTED;
    this.touched = new Map(); // key -> when it was changed here
    this.why = new Why(model, client);
    const why = (subscription, message) => this.why.open(subscription, message);
    const saved = body => this.saved(body);
    this.editor = new Editor(model, client, view, saved);
    this.examples = new Examples(model, client, why);
    this.compare = new Compare(model, client, saved, why);
    this.list = new List(model, why);
    this.feed = new Feed(model, $("feed"), $("feed-status"), why);
    this.pins = new Pins(view, model, (key, place) => this.dragged(key, place));
    this.draw = throttled(MAP_MS, () => this.drawn());
    this.replay = new Replay(model, client, () => this.draw());
    this.rescore = calmed(300, key => this.rescored(key));
    this.moves = new Map(); // key -> the way to send its next place
    view.onclick(point => {
      const found = view.pick(point);
      if (found) why(null, found);
    });
    model.addEventListener("change", () => {
      this.draw();
      this.numbers();
    });
    model.addEventListener("select", () => this.selected());
    this.buttons();
  }

  buttons() {
    const { model, client, view } = this;
    $("zoom-in").addEventListener("click", () => view.zoom(1));
    $("zoom-out").addEventListener("click", () => view.zoom(-1));
    $("fit").addEventListener("click", () => view.fit());
    $("everything").addEventListener("change", () => this.everything());
    $("more").addEventListener("click", () => {
      this.limit += LISTED;
      this.look();
    });
    $("new").addEventListener("click", () => {
      model.select(null);
      $("editor-panel").open = true;
    });
    $("delete").addEventListener("click", () => {
      this.editor.later.cancel();
      if (model.current) client.unsubscribe(model.current.id).catch(complain);
    });
    $("publish").addEventListener("submit", event => {
      event.preventDefault();
      this.publish();
    });
    $("publish-here").addEventListener("click", () => this.publishHere());
    $("grip").addEventListener("click", () => {
      const size = { low: "half", half: "full", full: "low" }[$("sheet").dataset.size ?? "half"];
      $("sheet").dataset.size = size;
      $("grip").setAttribute("aria-expanded", String(size !== "low"));
    });
    this.publishHere();
  }

  // ---- subscriptions

  /** List the subscriptions, now and then again, and hear of them. */
  async load() {
    await this.everything();
    await this.look();
    const again = () => {
      if (this.client.state === "open" && !document.hidden) this.look().catch(() => {});
    };
    setInterval(again, LIST_MS);
    window.addEventListener("focus", again);
  }

  async look() {
    let n = 0;
    for await (const body of this.client.subscriptions(Math.min(this.limit + 2, 1000))) {
      if (String(body.id) === EVERYTHING) continue;
      if (++n > this.limit) break;
      const isOwn = performance.now() - (this.touched.get(String(body.id)) ?? -Infinity) < OWN_MS;
      if (!isOwn) this.hear(body);
    }
    $("more").hidden = n <= this.limit;
  }

  /** Every live message answers the page's own subscription: similar, with a threshold of nothing. */
  async everything() {
    if (!$("everything").checked) {
      this.detach.get(EVERYTHING)?.();
      this.model.remove(EVERYTHING);
      return;
    }
    const [west, south, east, north] = this.model.setup.bounds;
    const body = {
      id: EVERYTHING,
      kind: "similar",
      lon: (west + east) / 2,
      lat: (south + north) / 2,
      keywords: "nearcast",
      delta: 0,
      tau: 0,
    };
    try {
      await this.client.subscribe(body);
    } catch (error) {
      $("everything").checked = false; // a key that may not subscribe, or ids that are numbers
      if (!(error instanceof Problem)) throw error;
      return;
    }
    this.hear(body);
  }

  hear(body) {
    const { key, id } = this.model.put(body);
    if (this.detach.has(key)) return;
    const listener = {
      snapshot: frame => this.model.replace(key, frame.results, frame.messages),
      updates: (rows, { cursor, messages }) => this.model.apply(key, rows, cursor, messages),
      end: () => {
        this.detach.delete(key);
        this.model.remove(key);
      },
    };
    const detach = this.client.attach(id, listener);
    this.detach.set(key, () => {
      this.detach.delete(key);
      detach();
    });
  }

  /** The server has taken a subscription in this form. */
  saved(body) {
    const key = String(body.id);
    this.touched.set(key, performance.now());
    this.hear(body);
    this.rescore(key);
    this.examples.again();
  }

  /** Messages that stay are not told again when their score changes. */
  async rescored(key) {
    const { results } = await this.client.results(key).catch(() => ({ results: [] })); // it may be deleted by now
    const known = this.model.subscriptions.get(key)?.results;
    for (const [message, score] of results) if (known?.has(String(message))) known.set(String(message), score);
    this.model.changed();
  }

  selected() {
    const { current } = this.model;
    if (current) $("editor-panel").open = true;
    this.draw();
  }

  dragged(key, place) {
    const subscription = this.model.subscriptions.get(key),
      { metric } = this.model.setup;
    if (!subscription) return;
    const move = movedTo(subscription.body, place, metric);
    this.touched.set(key, performance.now());
    this.model.put({ ...subscription.body, ...move });
    this.editor.moved(key, move);
    if (!this.moves.has(key)) {
      this.moves.set(
        key,
        throttled(
          MOVE_MS,
          latest(next => this.client.move(subscription.id, next).catch(complain)),
        ),
      );
    }
    this.moves.get(key)(move);
    this.rescore(key);
    this.examples.again();
  }

  // ---- messages

  publishHere() {
    const [lon, lat] = this.view.centre,
      form = $("publish").elements;
    form.lon.value = lon;
    form.lat.value = lat;
  }

  async publish() {
    const form = $("publish").elements;
    const [known] = this.model.messages.values(); // ids are all numbers, or none is
    const id = typeof known?.id === "number" ? Date.now() : `page-${Date.now().toString(36)}`;
    try {
      await this.client.publish({
        id,
        text: form.text.value,
        lon: Number(form.lon.value),
        lat: Number(form.lat.value),
      });
      $("publish-status").textContent = `published as ${id}`;
      form.text.value = "";
    } catch (error) {
      $("publish-status").textContent = error.message;
    }
  }

  // ---- what is seen

  drawn() {
    const { model, view } = this,
      { current } = model;
    const replayed = this.replay.results;
    const hits = replayed ?? current?.results ?? null;
    const rows = [];
    const show = (id, message, hit) => {
      if (message) rows.push([id, message.lon, message.lat, hit]);
    };
    for (const id of model.live)
      if (!replayed?.has(id)) show(id, model.messages.get(id), hits?.has(id) ? current.body.kind : "");
    for (const id of replayed?.keys() ?? []) show(id, this.replay.message(id), current.body.kind);
    view.setMessages(rows);
    const listed = model.listed;
    view.setRegions(
      listed
        .filter(each => each.body.region)
        .map(({ key, body }) => ({ key, kind: body.kind, region: body.region, selected: key === model.selected })),
    );
    this.pins.show(listed);
  }

  numbers() {
    const { model } = this;
    $("clock").textContent = Number.isFinite(model.clock) ? clockText(model.clock) : "-";
    $("n-messages").textContent = model.nLive.toLocaleString("en");
    $("n-updates").textContent = model.told.toLocaleString("en");
  }
}

function complain(error) {
  $("hint").textContent = error.message;
}

async function main() {
  let view = null;
  dress(() => view?.recolour());
  const { setup, client } = await begin();
  const model = new Model(setup);
  window.__state = mirror(model, client);
  const said = { open: "live", connecting: "connecting", waiting: "connection lost, trying again", closed: "closed" };
  const tell = () => {
    $("connection").textContent = said[client.state];
    $("connection").dataset.state = client.state;
  };
  client.addEventListener("state", tell);
  client.addEventListener("problem", ({ detail }) => {
    complain(detail);
    if (client.state !== "closed") return;
    stored.set(sessionStorage, "key", ""); // it is no longer valid: ask again
    location.reload();
  });
  const { View } = await import(setup.metric === "haversine" ? "./earth.js" : "./plane.js");
  view = await View.create($("map"), setup, colours);
  $("attribution").textContent = setup.basemap?.attribution ?? "";
  const page = new Page(model, client, view);
  await page.load();
  page.drawn();
  document.documentElement.dataset.ready = "";
}

main().catch(error => {
  document.body.prepend(make("p", { class: "problem", role: "alert" }, `The page could not start: ${error.message}`));
  throw error;
});
