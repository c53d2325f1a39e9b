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

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { file, label, id_column: id, cluster, drop } = form.elements;
  const chosen = file.files[0];
  if (chosen.size > Number(form.dataset.largest)) {
    refuse("This file is larger than this page takes.");
    return;
  }
  const query = new URLSearchParams({
    kind: chosen.name.split(".").pop().toLowerCase(),
    // Not every loss has labels, and few meters have clusters.
    label: label?.value ?? "",
    id_column: id.value,
    cluster: cluster?.value ?? "",
    drop: drop.value,
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
