// The form, the picture and the table of the planner's page. Numbers come from plan.js.
"use strict";

const form = document.getElementById("asked");
const whole = (value) => value.toLocaleString("en");

function number(name, least, most, kind) {
  const text = form.elements[name].value.trim();
  const value = Number(text);
  const fits = text !== "" && value >= least && value <= most && (kind !== "whole" || Number.isInteger(value));
  if (!fits) {
    const what = kind === "whole" ? "a whole number" : "a number";
    throw new Plan.Impossible(`${name}: write ${what} from ${least} to ${whole(most)}`);
  }
  return value;
}

function optional(name, least, most) {
  return form.elements[name].value.trim() === "" ? null : number(name, least, most);
}

function edgesGiven() {
  const text = form.elements.edges.value.trim();
  if (text === "") return null;
  const found = text.split(",").map((each) => Number(each.trim()));
  const rising = found.every((edge, i) => edge > (i ? found[i - 1] : 0) && edge < 1);
  if (!rising) throw new Plan.Impossible("edges: write rising numbers between 0 and 1, such as 0.05, 0.1");
  return found;
}

function read() {
  const want = form.elements.want.value, kind = form.elements.form.value;
  const drawn = kind === "drawn";
  return {
    want,
    labels: want === "labels" ? null : number("labels", 1, 1e9, "whole"),
    edges: drawn ? [] : edgesGiven(),
    meter: {
      steps: want === "steps" ? 1 : number("steps", 1, 1e6, "whole"),
      tolerance: want === "tolerance" ? 0.1 : number("tolerance", 0.0005, 0.5),
      delta: number("delta", 1e-12, 0.5),
      incremental: kind === "incremental",
      drawn: drawn ? number("drawn", 0.001, 1) : null,
      ceiling: drawn ? null : optional("ceiling", 0.0001, 0.9999),
    },
  };
}

// Fill in what was asked for: returns the meter with its steps, tolerance, edges and labels.
function solve({ want, labels, edges, meter }) {
  if (want === "tolerance") {
    const found = edges === null
      ? Plan.reachableWithDefaultBands(meter, labels)
      : { ...meter, edges, tolerance: Plan.reachableTolerance({ ...meter, edges }, labels) };
    return { ...found, labels };
  }
  const found = { ...meter, edges: edges ?? Plan.defaultEdges(meter.tolerance) };
  if (want === "steps") return { ...found, labels, steps: Plan.supportedSteps(found, labels) };
  return { ...found, labels: Plan.requiredLabels(found) };
}

function command(asked, found) {
  const words = ["meter plan"];
  if (asked.want !== "labels") words.push(`--labels ${found.labels}`);
  if (asked.want !== "steps") words.push(`--steps ${found.steps}`);
  if (asked.want !== "tolerance") words.push(`--tolerance ${found.tolerance}`);
  words.push(`--delta ${found.delta}`);
  if (found.drawn !== null) words.push(`--drawn ${found.drawn}`);
  else if (asked.edges !== null) words.push(`--edges ${asked.edges.join(",")}`);
  if (found.incremental) words.push("--protocol incremental");
  if (found.ceiling !== null) words.push(`--ceiling ${found.ceiling}`);
  return words.join(" ");
}

const SVG = "http://www.w3.org/2000/svg";

function drawn(name, attributes, text) {
  const found = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  if (text !== undefined) found.textContent = text;
  return found;
}

// Bands as wide as their number of letters needs, so that narrow ones near 0 can be read.
function picture(found) {
  const ends = found.drawn === null ? [0, ...found.edges, 1] : [0, found.drawn, 2 * found.drawn, 1];
  const count = ends.length - 1, width = 640, each = width / count;
  const place = (gap) => {
    const band = Math.min(count - 1, ends.findIndex((end, i) => i > 0 && gap < end) - 1);
    const at = band < 0 ? count - 1 : band;
    return (at + Math.min(1, (gap - ends[at]) / (ends[at + 1] - ends[at]))) * each;
  };
  const title = found.drawn === null
    ? `Bands of the gap with edges ${found.edges.join(", ")}; grey: the tolerance`
    : `Bands of width ${found.drawn} whose edges move with every answer`;
  const art = drawn("svg", { viewBox: `-8 0 ${width + 16} 92`, role: "img", "aria-label": title });
  for (let i = 0; i < count; i++) {
    const colour = 1 + Math.round((4 * i) / Math.max(1, count - 1));
    art.append(drawn("rect", { x: i * each, y: 10, width: each - 2, height: 34, rx: 4, style: `fill: var(--b${colour})` }));
  }
  if (found.drawn === null) {
    for (const [i, edge] of found.edges.entries()) {
      const low = place(Math.max(0, edge - found.tolerance)), high = place(Math.min(1, edge + found.tolerance));
      art.append(drawn("rect", { x: low, y: 48, width: Math.max(2, high - low), height: 6, rx: 3, style: "fill: var(--tolerance)" }));
      art.append(drawn("text", { x: (i + 1) * each, y: 74, "text-anchor": "middle" }, `${+(100 * edge).toPrecision(6)} %`));
    }
    art.append(drawn("text", { x: 0, y: 74 }, "0"));
    art.append(drawn("text", { x: width, y: 74, "text-anchor": "end" }, "100 %"));
  } else {
    art.append(drawn("text", { x: 0, y: 74 }, `every answer has its own edges, ${+(100 * found.drawn).toPrecision(6)} % apart`));
  }
  return art;
}

const CHOICES = [
  ["The band of every model", { incremental: false, drawn: null }, "the plain meter"],
  ["... with a ceiling of 0.1", { incremental: false, drawn: null, ceiling: 0.1 }, "models above 10 % error get no other answer"],
  ["The worst band so far", { incremental: true, drawn: null, ceiling: null }, "later models hide behind the worst one"],
  ["Drawn edges, 0.2 apart", { incremental: false, drawn: 0.2, ceiling: null }, "wide bands that move with every answer"],
];

function table(asked, found, price) {
  const rows = [["Meter", asked.want === "labels" ? "Labels" : asked.want === "steps" ? "Answers" : "Tolerance", asked.want === "labels" ? "Cost" : "", "What it takes from you"]];
  for (const [name, change, price_of] of CHOICES) {
    const meter = { ...asked.meter, ceiling: null, ...change };
    const edges = change.drawn ? [] : asked.edges && asked.edges.length ? asked.edges : null;
    let value = "not possible", cost = "";
    try {
      const other = solve({ ...asked, edges, meter });
      value = asked.want === "tolerance" ? String(other.tolerance) : whole(other[asked.want]);
      if (asked.want === "labels") cost = money(other.labels, price);
    } catch (error) {
      if (!(error instanceof Plan.Impossible)) throw error;
    }
    rows.push([name, value, cost, price_of, ["incremental", "drawn", "ceiling"].every((key) => meter[key] === found[key])]);
  }
  return rows;
}

// Figures were rounded outwards when they were found: here they only move the point.
function hundred(share) {
  return +(100 * share).toPrecision(12);
}

function promised(found) {
  const within = `every test error is within ${hundred(found.tolerance)} percentage point${hundred(found.tolerance) === 1 ? "" : "s"} of the truth`;
  return found.ceiling === null ? within : `${within} unless "above the ceiling" is told`;
}

function money(labels, price) {
  return (labels * price).toLocaleString("en", { maximumFractionDigits: 0 });
}

function show() {
  const figure = document.getElementById("figure"), promise = document.getElementById("promise");
  const kind = form.elements.form.value, want = form.elements.want.value;
  for (const field of form.querySelectorAll("[data-for]")) field.hidden = !field.dataset.for.split(" ").includes(want);
  for (const field of form.querySelectorAll("[data-form]")) field.hidden = !field.dataset.form.split(" ").includes(kind);
  history.replaceState(null, "", `#${new URLSearchParams(new FormData(form))}`);
  const parts = ["picture", "command", "choices"].map((id) => document.getElementById(id));
  parts.forEach((part) => part.replaceChildren());
  try {
    const asked = read(), price = number("price", 0, 1e6), found = solve(asked);
    figure.className = "figure";
    figure.textContent = { labels: `${whole(found.labels)} labels`, steps: `${whole(found.steps)} answers`, tolerance: `tolerance ${found.tolerance}` }[asked.want];
    promise.textContent = `${whole(found.steps)} answers from ${whole(found.labels)} labels`
      + ` (${money(found.labels, price)} at ${price} each): with ${hundred(1 - found.delta)} % certainty,`
      + ` ${promised(found)}, in all answers together.`;
    parts[0].append(picture(found));
    parts[1].textContent = command(asked, found);
    table(asked, found, price).forEach(([name, value, cost, takes, chosen], i) => {
      const row = parts[2].insertRow();
      if (chosen === true) row.className = "chosen";
      [name, value, cost, takes].forEach((text, at) => {
        const cell = document.createElement(i ? "td" : "th");
        cell.textContent = text;
        if (at === 1 || at === 2) cell.className = "number";
        row.append(cell);
      });
    });
  } catch (error) {
    if (!(error instanceof Plan.Impossible)) throw error;
    figure.className = "problem";
    figure.textContent = error.message;
    promise.textContent = "";
  }
}

function fill(values) {
  for (const [name, value] of Object.entries(values)) {
    if (form.elements[name] !== undefined) form.elements[name].value = value;
  }
}

for (const button of document.querySelectorAll("#presets button")) {
  const values = Object.fromEntries(new URLSearchParams(button.dataset.fill));
  button.addEventListener("click", () => { fill({ want: "labels", form: "regular", edges: "", ceiling: "", ...values }); show(); });
}
let waiting = 0;
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, 150); });
fill(Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
show();
