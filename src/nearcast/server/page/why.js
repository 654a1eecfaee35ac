// Why a message is, or is not, in a result: the server's own explanation, with its score as bars.

import { $, clockText, distanceText, make, textOf } from "./dom.js";

/** Bars for the parts of a score: what the text gives, what the place gives, and the threshold if there is one. */
export function bars(parts) {
  const isSimilar = "delta" in parts;
  const text = isSimilar ? parts.tsim : parts.cos;
  if (parts.ssim === undefined) return null;
  const weight = isSimilar ? parts.delta : 1 - parts.alpha;
  const shares = [
    ["words", weight * (text ?? 0), text, weight],
    ["place", (1 - weight) * parts.ssim, parts.ssim, 1 - weight],
  ];
  const track = make("div", { class: "track", "aria-hidden": "true" });
  for (const [name, share] of shares) {
    const bar = make("span", { class: `bar ${name}` });
    bar.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
    track.append(bar);
  }
  if (isSimilar) {
    const line = make("span", { class: "tau" });
    line.style.left = `${100 * parts.tau}%`;
    track.append(line);
  }
  const said = shares.map(
    ([name, share, value, own]) => `${name} ${own.toFixed(2)} \u00d7 ${(value ?? 0).toFixed(3)} = ${share.toFixed(3)}`,
  );
  const sum = `${said.join(" + ")}; score ${parts.score.toFixed(3)}${isSimilar ? `, tau ${parts.tau.toFixed(2)}` : ""}`;
  return make("div", { class: "bars" }, track, make("p", { class: "sum" }, sum));
}

const isList = value => Array.isArray(value);

export class Why {
  #model;
  #client;
  #message = null;

  constructor(model, client) {
    this.#model = model;
    this.#client = client;
    this.dialog = $("why");
    $("why-subscription").addEventListener("change", () => this.#explain());
    $("why-close").addEventListener("click", () => this.dialog.close());
  }

  /** Open for a message, and a subscription if one is meant. */
  open(subscription, message) {
    const listed = this.#model.listed;
    this.#message = message;
    const body = this.#model.messages.get(message);
    $("why-message").textContent = body ? textOf(body) : `message ${message}`;
    $("why-facts").textContent = body
      ? `${message} \u00b7 ${body.lon}, ${body.lat}${body.ts === undefined ? "" : ` \u00b7 ${clockText(body.ts)}`}`
      : "";
    const chosen = subscription ?? this.#model.selected ?? listed[0]?.key;
    $("why-subscription").replaceChildren(
      ...listed.map(({ key }) => make("option", { value: key, selected: key === chosen }, key)),
    );
    this.dialog.showModal();
    return this.#explain();
  }

  async #explain() {
    const key = $("why-subscription").value,
      target = $("why-answer"),
      asked = this.#message;
    if (!key) {
      target.replaceChildren(make("p", {}, "There is no subscription yet."));
      return;
    }
    try {
      const said = await this.#client.explain(key, asked);
      if (asked !== this.#message || key !== $("why-subscription").value) return;
      target.replaceChildren(...this.#lines(said));
    } catch (error) {
      target.replaceChildren(make("p", { class: "problem" }, error.message));
    }
  }

  #lines({ in_result, reason, parts }) {
    const verdict = make(
      "p",
      { class: `verdict ${in_result ? "plus" : "minus"}` },
      make("span", { class: "sign", "aria-hidden": "true" }, in_result ? "+" : "\u2212"),
      ` ${reason}`,
    );
    const table = make("dl", { class: "parts" });
    for (const [name, value] of Object.entries(parts)) {
      table.append(make("div", {}, make("dt", {}, name), make("dd", {}, this.#value(name, value))));
    }
    const drawn = bars(parts);
    return drawn ? [verdict, drawn, table] : [verdict, table];
  }

  #value(name, value) {
    if (isList(value)) return value.length ? value.join(", ") : "none";
    if (value === true || value === false) return value ? "yes" : "no";
    if (name === "distance") return distanceText(value, this.#model.setup.metric);
    return typeof value === "number" && !Number.isInteger(value) ? value.toFixed(4) : String(value);
  }
}
