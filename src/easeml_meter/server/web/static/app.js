"use strict";
// Sends files with a progress bar and puts answers into the page. Other scripts use `meter`.
document.documentElement.classList.add("script");

const meter = (() => {
  const headers = () => ({
    "X-CSRF-Token": document.querySelector('meta[name="csrf-token"]')?.content ?? "",
    "HX-Request": "true",
    "HX-Current-URL": location.href,
  });

  // Put a fragment into `place`; each <template data-replace="id"> in it replaces that element.
  function show(place, html) {
    const found = new DOMParser().parseFromString(html, "text/html");
    for (const part of found.querySelectorAll("template[data-replace]")) {
      const old = document.getElementById(part.dataset.replace);
      // What somebody is typing in stays.
      if (!old?.contains(document.activeElement)) old?.replaceChildren(part.content);
      part.remove();
    }
    place.replaceChildren(...found.body.childNodes);
    const waits = place.querySelector("[data-poll]");
    if (waits) setTimeout(() => poll(place, waits), 1000);
  }

  function problem(place, words) {
    const line = document.createElement("p");
    line.className = "problem";
    line.textContent = words;
    place.replaceChildren(line);
  }

  async function poll(place, waits) {
    if (!waits.isConnected) return;
    let answer;
    try {
      answer = await fetch(waits.dataset.poll, { headers: headers() });
    } catch {
      setTimeout(() => poll(place, waits), 5000);
      return;
    }
    const away = answer.headers.get("HX-Redirect");
    if (away) location.assign(away);
    else show(place, await answer.text());
  }

  // Send a body to an address; the form shows the progress, and what came of it.
  function send(form, address, body) {
    const place = form.querySelector("[data-result]");
    const bar = form.querySelector("progress");
    const buttons = form.querySelectorAll("button");
    const request = new XMLHttpRequest();
    const end = (then) => () => {
      bar.hidden = true;
      for (const button of buttons) button.disabled = false;
      then();
    };
    request.open("POST", address);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    const kind = "application/octet-stream";
    if (!(body instanceof FormData)) request.setRequestHeader("Content-Type", kind);
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) bar.value = event.loaded / event.total;
    };
    request.onload = end(() => {
      const away = request.getResponseHeader("HX-Redirect");
      if (away) location.assign(away);
      else show(place, request.responseText);
    });
    request.onerror = end(() => {
      problem(place, "The connection broke. Send it again: what was answered is not charged twice.");
    });
    bar.value = 0;
    bar.hidden = false;
    for (const button of buttons) button.disabled = true;
    place.replaceChildren();
    request.send(body);
  }

  return { headers, show, problem, send };
})();

// The page of a meter follows it while it is looked at. A hidden page lets go of its connection,
// since a browser has only a few for each site.
const live = document.getElementById("live");
if (live) {
  let source, due;
  let { after } = live.dataset;
  const update = async () => {
    const answer = await fetch(live.dataset.changed + location.search, { headers: meter.headers() });
    if (answer.ok) meter.show(document.createElement("div"), await answer.text());
  };
  const follow = () => {
    source?.close();
    live.classList.remove("on");
    if (document.hidden) return;
    source = new EventSource(`${live.dataset.stream}?after=${after}`);
    source.onopen = () => live.classList.add("on");
    source.onerror = () => live.classList.remove("on");
    source.addEventListener("changed", (event) => {
      after = event.lastEventId;
      clearTimeout(due);
      due = setTimeout(update, 50); // what comes at once is asked for once
    });
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}

// A file that is dropped on its place is chosen.
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    const place = event.target.closest?.(".drop");
    if (!place) return;
    event.preventDefault();
    place.classList.toggle("over", kind === "dragover");
    if (kind !== "drop" || !event.dataTransfer.files.length) return;
    const field = place.querySelector("input[type=file]");
    field.files = event.dataTransfer.files;
    field.dispatchEvent(new Event("change", { bubbles: true }));
  });
}

// The header of a text file is read here, so that its columns can be offered.
async function offerColumns(field) {
  const list = document.getElementById(field.dataset.columns);
  const [file] = field.files;
  list?.replaceChildren();
  if (!list || !file || ![".csv", ".tsv"].includes(ending(file))) return;
  const [header] = (await file.slice(0, 65536).text()).split(/\r?\n/);
  const separator = [",", ";", "\t"].find((mark) => header.includes(mark)) ?? ",";
  for (const name of header.split(separator)) {
    const option = document.createElement("option");
    option.value = name.trim().replace(/^"|"$/g, "");
    list.append(option);
  }
}

document.addEventListener("change", (event) => {
  const field = event.target;
  if (field.type !== "file") return;
  if (field.dataset.columns) offerColumns(field);
  const place = field.closest(".drop");
  place?.classList.toggle("chosen", field.files.length > 0);
  const said = place?.querySelector("[data-chosen]");
  if (said && field.files.length) said.textContent = field.files[0].name;
  const form = field.form;
  const name = form.elements.namedItem("model");
  if (name?.value === "" && field.files.length) {
    name.value = field.files[0].name.replace(/\.[^.]+$/, "");
  }
  // The check is free, so nobody has to ask for it.
  const chosen = [...form.querySelectorAll("input[type=file]")].every((each) => each.files.length);
  if (form.dataset.check && chosen) form.requestSubmit(form.querySelector("button[formaction]"));
});

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

const ending = (file) => file.name.match(/\.[^.]+$/)?.[0].toLowerCase() ?? "";

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.upload) return;
  event.preventDefault();
  const query = new URLSearchParams();
  const files = [];
  for (const [name, value] of new FormData(form, event.submitter)) {
    if (value instanceof File) files.push([name, value]);
    else query.append(name, value);
  }
  const missing = [...form.querySelectorAll("input[type=file]")].filter((each) => !each.files.length);
  if (missing.length) {
    const names = missing.map((each) => each.closest(".drop").querySelector("b").textContent);
    const words = `Choose the file first: ${names.join(" and ").toLowerCase()}.`;
    meter.problem(form.querySelector("[data-result]"), words);
    missing[0].focus();
    return;
  }
  // Refusals call files as their sender does.
  for (const [name, file] of files) query.append(`${name}_name`, file.name.slice(-200));
  let body = files[0][1];
  if (form.dataset.upload === "file") query.append("suffix", ending(body).slice(1));
  else {
    body = new FormData();
    for (const [name, file] of files) body.append(name, file, name + ending(file));
  }
  const address = event.submitter?.getAttribute("formaction") ?? form.getAttribute("action");
  meter.send(form, `${address}?${query}`, body);
});
