"use strict";
// Take the secret from the link into the form, and out of the address bar and the history.
if (location.hash.length > 1) {
  document.getElementById("invitation").value = location.hash.slice(1);
  document.getElementById("given").hidden = true;
  history.replaceState(null, "", location.pathname);
}
