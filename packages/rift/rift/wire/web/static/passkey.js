// Passkeys: carries questions and answers between this browser's authenticators and Rift.
// A page says what it wants by data attributes: data-passkey="sign-in" or "new" on the part that is shown once this
// browser is known to have passkeys, data-origin with the one address at which they are good.

const part = document.querySelector("[data-passkey]");
const RENEW_MS = 240_000; // what was asked is good for five minutes
let waiting = null; // the question that the address field's suggestions answer

class Refused extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

if (part) {
  if (!window.PublicKeyCredential || !navigator.credentials) {
    say("This browser has no passkeys.");
  } else if (location.origin !== part.dataset.origin) {
    elsewhere();
  } else {
    part.querySelector("[data-ready]").hidden = false;
    if (part.dataset.passkey === "new") {
      part.querySelector("form").addEventListener("submit", add);
    } else {
      part.querySelector("button").addEventListener("click", signIn);
      suggest();
    }
  }
}

async function suggest() {
  // The passkeys among the suggestions of the address field, where the browser can.
  const able = PublicKeyCredential.isConditionalMediationAvailable;
  if (!able || !(await able.call(PublicKeyCredential))) return;
  for (;;) {
    const stop = new AbortController();
    waiting = stop;
    const renew = setTimeout(() => stop.abort("renew"), RENEW_MS);
    try {
      const asked = await ask("/sign-in/passkey/begin", { next: part.dataset.next });
      if (stop.signal.aborted) return;
      const credential = await navigator.credentials.get({
        publicKey: question(asked), mediation: "conditional", signal: stop.signal,
      });
      await finish(credential);
      return;
    } catch (error) {
      if (stop.signal.reason === "renew") continue;
      if (!stop.signal.aborted && error instanceof Refused && error.code !== "too_often") say(error.message);
      return;
    } finally {
      clearTimeout(renew);
    }
  }
}

async function signIn(event) {
  if (waiting) waiting.abort("button");
  await busy(event.currentTarget, async () => {
    const asked = await ask("/sign-in/passkey/begin", { next: part.dataset.next });
    await finish(await navigator.credentials.get({ publicKey: question(asked) }));
  });
}

async function finish(credential) {
  const done = await ask("/sign-in/passkey", { credential: answer(credential) });
  location.assign(done.next);
}

async function add(event) {
  event.preventDefault();
  const form = event.currentTarget;
  await busy(form.querySelector("button"), async () => {
    const asked = await ask("/app/account/passkeys/begin", {});
    const credential = await navigator.credentials.create({ publicKey: question(asked) });
    const done = await ask("/app/account/passkeys", { credential: answer(credential), name: form.elements.name.value });
    location.assign(done.next);
  });
}

async function busy(button, work) {
  say("");
  button.disabled = true;
  try {
    await work();
  } catch (error) {
    say(words(error));
  } finally {
    button.disabled = false;
  }
}

async function ask(path, body) {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": part.dataset.csrf };
  const reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), redirect: "manual" });
  if (reply.type === "opaqueredirect") throw new Refused("You are signed out: load the page again.", "signed_out");
  const said = await reply.json().catch(() => null);
  if (reply.ok && said) return said;
  const mend = said?.mends?.find((one) => one.kind === "ask");
  const text = said?.detail ? `${said.detail}${mend ? ` Next: ${mend.page}.` : ""}` : `Rift answered ${reply.status}.`;
  throw new Refused(text, said?.type?.split(":").pop());
}

function words(error) {
  if (error instanceof Refused) return error.message;
  switch (error.name) {
    case "NotAllowedError":
    case "AbortError":
      return "Nothing was chosen, or it took too long. Try again, or use a link.";
    case "InvalidStateError":
      return "This device has a passkey for you already.";
    case "NotSupportedError":
    case "ConstraintError":
      return "This device cannot keep such a passkey.";
    case "SecurityError":
      return "The browser does not allow passkeys at this address.";
    case "TypeError":
      return "Rift could not be reached. Try again.";
    default:
      return `The browser could not do it (${error.name}).`;
  }
}

function question(asked) {
  const made = { ...asked, challenge: bytes(asked.challenge) };
  if (asked.user) made.user = { ...asked.user, id: bytes(asked.user.id) };
  for (const name of ["allowCredentials", "excludeCredentials"]) {
    if (asked[name]) made[name] = asked[name].map((one) => ({ ...one, id: bytes(one.id) }));
  }
  return made;
}

function answer(credential) {
  const { response } = credential;
  const told = { clientDataJSON: text(response.clientDataJSON) };
  if (response.attestationObject) {
    told.attestationObject = text(response.attestationObject);
    told.transports = response.getTransports?.() ?? [];
  } else {
    told.authenticatorData = text(response.authenticatorData);
    told.signature = text(response.signature);
    if (response.userHandle?.byteLength) told.userHandle = text(response.userHandle);
  }
  return { id: credential.id, rawId: text(credential.rawId), type: credential.type, response: told };
}

function bytes(base64url) {
  const plain = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (one) => one.charCodeAt(0));
}

function text(buffer) {
  const plain = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(plain).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function elsewhere() {
  const line = part.querySelector("[data-said]");
  const link = document.createElement("a");
  link.href = part.dataset.origin + location.pathname + location.search;
  link.textContent = part.dataset.origin;
  line.replaceChildren("Passkeys work at ", link, ", not at this address.");
  line.hidden = false;
}

function say(sentence) {
  const line = part.querySelector("[data-said]");
  line.textContent = sentence;
  line.hidden = !sentence;
}
