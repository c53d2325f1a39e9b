// Labels never leave this machine in the clear: the file is encrypted to the server's key first.
// `meter` is from app.js.

const form = document.getElementById("labels");
const place = form.querySelector("[data-result]");
const button = form.querySelector("button");

function refuse(words) {
  meter.problem(place, `${words} Use the command below.`);
  document.getElementById("command").open = true;
}

async function encrypt(file) {
  const { Encrypter } = await import(form.dataset.age);
  const encrypter = new Encrypter();
  encrypter.addRecipient(form.dataset.recipient);
  return encrypter.encrypt(new Uint8Array(await file.arrayBuffer()));
}

// What can be seen of the rows is said while nothing has been sent yet.
const looked = document.getElementById("looked");
const readable = /\.(csv|tsv|jsonl|ndjson|json)$/i;
const taken = /\.(csv|tsv|jsonl|ndjson|json|parquet|pq|arrow|feather)(\.gz)?$/i;

// A comma, wherever the header has one; else what a spreadsheet writes in its place.
function separatorOf(text) {
  const [header] = text.replace(/"[^"]*"/g, "").split(/[\r\n]/);
  return [",", ";", "\t"].find((mark) => header.includes(mark)) ?? ",";
}

async function unpacked(file) {
  if (!/\.gz$/i.test(file.name)) return file;
  const content = file.stream().pipeThrough(new DecompressionStream("gzip"));
  return new File([await new Response(content).blob()], file.name.slice(0, -3));
}

function cells(text, separator) {
  const rows = [];
  let row = [], cell = "", quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (quoted) {
      if (char !== '"') cell += char;
      else if (text[at + 1] === '"') cell += text[(at += 1)];
      else quoted = false;
    } else if (char === '"') quoted = true;
    else if (char === separator || char === "\n" || char === "\r") {
      row.push(cell);
      cell = "";
      if (char !== separator) {
        if (row.length > 1 || row[0] !== "") rows.push(row);
        row = [];
      }
    } else cell += char;
  }
  row.push(cell);
  if (row.length > 1 || row[0] !== "") rows.push(row);
  return rows;
}

// Give the columns of a text file by name; null for files that only the server reads.
async function columnsOf(file) {
  if (file.size > 32 << 20 || !readable.test(file.name)) return null;
  const text = (await file.text()).replace(/^\ufeff/, "");
  if (/\.[ct]sv$/i.test(file.name)) {
    const [names, ...rows] = cells(text, /\.tsv$/i.test(file.name) ? "\t" : separatorOf(text));
    return new Map((names ?? []).map((name, place) => [name, rows.map((row) => row[place] ?? "")]));
  }
  const lines = text.split("\n").filter((line) => line.trim());
  const rows = /\.json$/i.test(file.name) ? JSON.parse(text) : lines.map((line) => JSON.parse(line));
  const names = Object.keys(rows[0] ?? {});
  return new Map(names.map((name) => [name, rows.map((row) => String(row[name] ?? ""))]));
}

const number = (count) => count.toLocaleString("en");
const rowsOf = (count) => `${number(count)} row${count === 1 ? "" : "s"}`;
const folded = (text) => text.normalize("NFC").trim().toLowerCase();
const same = (a, b) => a === b || (a !== "" && Number(a) === Number(b));

function* remarks(columns) {
  const { label, id_column: id, judge } = form.elements;
  const { needed, here, classes } = looked.dataset;
  const pool = Number(looked.dataset.pool ?? 0);
  const rows = columns.values().next().value?.length ?? 0;
  const missing = Number(needed) + pool - here - rows;
  const exceeded = judge && missing < 0;
  const left = missing > 0 ? `${number(missing)} more are needed` : "enough";
  yield [!exceeded, `${rowsOf(rows)}: ${exceeded ? `${number(-missing)} too many` : left}`];
  for (const field of [label, id, judge]) {
    const name = field?.value.trim();
    if (name && !columns.has(name)) {
      const near = [...columns.keys()].find((each) => folded(each) === folded(name));
      const meant = near ? ` Did you mean "${near}"?` : "";
      yield [false, `There is no column "${name}".${meant} There are: ${[...columns.keys()].slice(0, 12).join(", ")}`];
    }
  }
  const unnamed = id && !id.value.trim() && [...columns.keys()].find((name) => name.toLowerCase() === "id");
  if (unnamed) {
    yield [false, `The column "${unnamed}" would count as an input: name it as the id column`];
  }
  const ids = columns.get(id?.value.trim());
  if (ids) {
    const repeated = ids.length - new Set(ids).size;
    yield [!repeated, repeated ? `an id repeats in ${rowsOf(repeated)}` : "every id stands once"];
  }
  const labels = columns.get(label?.value.trim());
  if (!labels) return;
  const empty = labels.filter((each) => each.trim() === "").length;
  const spoken = empty === pool ? "as many as the judge speaks for" : `${number(pool)} are needed`;
  if (judge) yield [empty === pool, `no label in ${rowsOf(empty)}, ${spoken}`];
  else if (empty) yield [false, `no label in ${rowsOf(empty)}`];
  const known = JSON.parse(classes);
  if (!known.length) return;
  const others = labels.filter((each) => each.trim() && !known.some((one) => same(one, each.trim())));
  const names = [...new Set(others)].slice(0, 5).join(", ");
  const alike = others.every((each) => known.some((one) => folded(String(one)) === folded(each)));
  const apart = alike ? ", which differ from classes by case or space alone: write them alike" : "";
  yield [!others.length, others.length ? `a label that is no class in ${rowsOf(others.length)}: ${names}${apart}` : "every label is a class"];
}

// A press on the button ends the typing, which has the file looked at again. What that shows must not
// move the button away before it is let go: the press would be lost.
let pressed = null;
form.addEventListener("pointerdown", () => {
  pressed = new Promise((resolve) => {
    for (const end of ["pointerup", "pointercancel"]) {
      document.addEventListener(end, () => setTimeout(resolve), { once: true });
    }
  });
});

async function look() {
  const [file] = form.elements.file.files;
  let columns = null;
  try {
    columns = file && (await columnsOf(await unpacked(file)));
  } catch {
    // The server says better what is wrong with it.
  }
  await pressed;
  looked.replaceChildren();
  const unread = [[false, "This page does not read such a file: seal it with meter seal, as below"]];
  for (const [good, words] of columns ? remarks(columns) : !file || taken.test(file.name) ? [] : unread) {
    const line = document.createElement("li");
    line.className = good ? "good" : "bad";
    line.textContent = words;
    looked.append(line);
  }
}

form.addEventListener("change", look);

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { file, label, id_column: id, cluster, judge, drop } = form.elements;
  let chosen = file.files[0];
  try {
    chosen = await unpacked(chosen);
  } catch {
    // The server says better what is wrong with it.
  }
  if (chosen.size > Number(form.dataset.largest)) {
    refuse("This file is larger than this page takes.");
    return;
  }
  const query = new URLSearchParams({
    kind: chosen.name.split(".").pop().toLowerCase(),
    // Not every loss has labels, and few meters have clusters or a judge.
    label: label?.value ?? "",
    id_column: id.value,
    cluster: cluster?.value ?? "",
    judge: judge?.value ?? "",
    drop: drop?.value ?? "",
    file_name: chosen.name.slice(-200),
  });
  for (const choice of form.querySelectorAll("input[type=checkbox]:checked")) {
    query.set(choice.name, "true");
  }
  place.textContent = "Encrypting, in this browser.";
  button.disabled = true;
  try {
    meter.send(form, `${form.getAttribute("action")}?${query}`, await encrypt(chosen));
  } catch {
    button.disabled = false;
    refuse("This browser could not encrypt the file; nothing was sent.");
  }
});

if (!window.isSecureContext) {
  // Whoever sits between could change this very script.
  button.disabled = true;
  refuse("This page came without TLS, so it cannot keep labels secret.");
}
